"""Whether what every training of ``search-qa-open`` reads is here, under any trainer."""

from __future__ import annotations

from collections.abc import Iterator

from evoprompt.tasks import Need, Trial
from evoprompt_search_qa import needs
from evoprompt_search_qa.open.task import OpenQa


def inputs(task: OpenQa, trial: Trial) -> Iterator[Need]:
    """The model, the three files of questions, and the search server."""
    chosen = task.settings
    yield needs.model(str(trial.policy or chosen.model))
    yield needs.questions("train", chosen.train)
    yield needs.questions("validation", chosen.validation)
    yield needs.questions("test", chosen.test)
    yield needs.server(chosen.retriever)
