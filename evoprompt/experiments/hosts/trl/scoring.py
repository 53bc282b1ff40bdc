"""A task's scores as a reward function of TRL, which tells them on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from accelerate.utils import gather_object
from evoprompt_trl.scores import FEEDBACK

from evoprompt.agents import Episode
from evoprompt.agents.tasks import Task, scored
from evoprompt.types import Question

LogExtra = Callable[[str, list[str | float | None]], None]


class Scoring:
    """Scores episodes: the reward to TRL, feedback and metrics by TRL's own ``log_extra``.

    Args:
        task: which scores.
        questions: those trained on; a column ``place`` says which is meant.
    """

    __name__ = "score"

    def __init__(self, task: Task, questions: Sequence[Question]) -> None:
        self._task = task
        self._questions = questions

    def __call__(
        self,
        *,
        episode: Sequence[Episode],
        place: Sequence[int],
        log_extra: LogExtra,
        **columns: object,
    ) -> list[float | None]:
        """The rewards; None where a tool or the sampler broke."""
        scores = [
            scored(self._task, one, self._questions[where])
            for one, where in zip(episode, place, strict=True)
        ]
        log_extra(FEEDBACK, [score.feedback if score else "" for score in scores])
        own = {name for score in scores if score for name in score.metrics}
        # TRL gathers the columns of all processes, which must therefore log the same ones.
        for name in sorted(set(gather_object(sorted(own)))):
            log_extra(name, [score.metrics.get(name) if score else None for score in scores])
        return [score.reward if score else None for score in scores]
