"""Reward function of TRL that logs a task's scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from accelerate.utils import gather_object
from evoprompt_trl.scores import FEEDBACK

from evoprompt.agents import Episode
from evoprompt.agents.tasks import Task, scored
from evoprompt.types import Question

LogExtra = Callable[[str, list[str | float | None]], None]


class EpisodeScorer:
    """Scorer of episodes: the reward to TRL, feedback and metrics by TRL's own ``log_extra``.

    Args:
        task: that scores.
        questions: of the training; a column ``question_index`` refers to one of them.
    """

    __name__ = "score"

    def __init__(self, task: Task, questions: Sequence[Question]) -> None:
        self._task = task
        self._questions = questions

    def __call__(
        self,
        *,
        episode: Sequence[Episode],
        question_index: Sequence[int],
        log_extra: LogExtra,
        **columns: object,
    ) -> list[float | None]:
        """Return the rewards; None if a tool or the sampler broke."""
        scores = [
            scored(self._task, rollout_episode, self._questions[number])
            for rollout_episode, number in zip(episode, question_index, strict=True)
        ]
        log_extra(FEEDBACK, [score.feedback if score else "" for score in scores])
        metric_names = {name for score in scores if score for name in score.metrics}
        # TRL gathers the columns of all processes, which must therefore log the same ones.
        for name in sorted(set(gather_object(sorted(metric_names)))):
            log_extra(name, [score.metrics.get(name) if score else None for score in scores])
        return [score.reward if score else None for score in scores]
