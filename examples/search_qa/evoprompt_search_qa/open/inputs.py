"""Whether what every training of ``search-qa-open`` reads is here, under TRL."""

from __future__ import annotations

from collections.abc import Iterator

from evoprompt.requirements import model
from evoprompt.tasks import Need, Trial
from evoprompt_search_qa.open.task import OpenQa


def inputs(task: OpenQa, trial: Trial) -> Iterator[Need]:
    """The model, the three files of questions, and the search server."""
    yield model(str(trial.policy or task.settings.model))
    yield from task.needs()
