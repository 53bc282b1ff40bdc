"""The host ``prompted``: nothing is trained; an inference method is tested as it is."""

from __future__ import annotations

from collections.abc import Callable

from evoprompt.agents.tasks import Evaluation, Trial
from evoprompt.engine import Engine
from evoprompt_search_qa.tiny.task import SearchQa
from evoprompt_search_qa.training.offline import OfflineTrainee
from evoprompt_search_qa.training.settings import OfflineSettings


class PromptedTrainee(OfflineTrainee):
    """A policy that stays as it is.

    Args:
        task: whose questions to use.
        trial: what to do. Its budget is left untouched.
        settings: how to ask it.
    """

    def __init__(self, task: SearchQa, trial: Trial, settings: OfflineSettings) -> None:
        super().__init__("prompted", task, trial, settings)

    def train(self, engine: Engine, on_evaluation: Callable[[Evaluation], None]) -> None:
        """Only evaluates."""
        on_evaluation(self.evaluate(engine.best.text, "validation"))
