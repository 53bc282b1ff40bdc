"""Whether what every training of ``search-qa-open`` reads is here, under any trainer."""

from __future__ import annotations

from collections.abc import Iterator

from evoprompt.tasks import Need, Trial
from evoprompt_search_qa import requirements
from evoprompt_search_qa.open.task import OpenQa


def inputs(task: OpenQa, trial: Trial) -> Iterator[Need]:
    """The model, the three files of questions, and the search server."""
    chosen = task.settings
    yield requirements.model(str(trial.policy or chosen.model))
    yield requirements.questions("train", chosen.train)
    yield requirements.questions("validation", chosen.validation)
    yield requirements.questions("test", chosen.test)
    yield requirements.server(chosen.retriever)
