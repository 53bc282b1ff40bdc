"""The host ``prompted``: nothing is trained; an inference method is tested as it is."""

from __future__ import annotations

from collections.abc import Callable

from evoprompt.engine import Engine
from evoprompt.tasks import Evaluation, Trial
from evoprompt_search_qa.tiny.task import SearchQa
from evoprompt_search_qa.training.offline import OfflineSettings, OfflineTrainee, validated

HOST = "prompted"


class PromptedTrainee(OfflineTrainee):
    """A policy that stays as it is.

    Args:
        task: whose questions to use.
        trial: what to do; its host settings are those of :class:`OfflineSettings`. Its budget is
            left untouched.

    Raises:
        InputError: the host settings are wrong.
    """

    def __init__(self, task: SearchQa, trial: Trial) -> None:
        super().__init__(HOST, task, trial, validated(HOST, OfflineSettings, trial.host_settings))

    def train(self, engine: Engine, on_evaluation: Callable[[Evaluation], None]) -> None:
        """Only evaluates."""
        on_evaluation(self.evaluate(engine.best.text, "validation"))
