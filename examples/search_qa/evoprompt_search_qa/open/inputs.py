"""Whether what every training of ``search-qa-open`` reads is here, under any trainer."""

from __future__ import annotations

from collections.abc import Iterator

from evoprompt_retrieval.requirements import search_server

from evoprompt.requirements import model
from evoprompt.tasks import Need, Trial
from evoprompt_search_qa.open.task import OpenQa
from evoprompt_search_qa.requirements import questions


def inputs(task: OpenQa, trial: Trial) -> Iterator[Need]:
    """The model, the three files of questions, and the search server."""
    chosen = task.settings
    yield model(str(trial.policy or chosen.model))
    yield questions("train", chosen.train)
    yield questions("validation", chosen.validation)
    yield questions("test", chosen.test)
    yield search_server(chosen.retriever)
