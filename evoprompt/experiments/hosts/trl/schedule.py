"""Schedule of a training under TRL: evaluations, checkpoints and the end, in rollouts."""

from __future__ import annotations

from collections.abc import Callable

from evoprompt_trl.collectives import Collectives
from transformers import TrainerCallback, TrainerControl, TrainerState

from evoprompt.agents.tasks import Trial
from evoprompt.engine import Engine
from evoprompt.support.storage import STATE_FILE


class Pace(TrainerCallback):
    """Callback that evaluates on schedule and stops when the budget is spent.

    With several processes all of them follow the first one, which owns the engine.

    Args:
        trial: its budget and its period of evaluation.
        updates: optimizer steps that share one generation batch; nothing happens between them.

    Attributes:
        stopping: whether to save and stop after the current step.
    """

    def __init__(self, trial: Trial, updates: int = 1) -> None:
        self._trial = trial
        self._updates = updates
        self._engine: Engine | None = None
        self._evaluate: Callable[[], None] = lambda: None
        self._before = 0
        self.stopping = False

    def follow(self, engine: Engine, evaluate: Callable[[], None], together: Collectives) -> None:
        """Count the rollouts of ``engine`` from now on, and call ``evaluate`` on schedule."""
        self._engine, self._evaluate, self._together = engine, evaluate, together

    def on_step_begin(self, args: object, state: TrainerState, *_: object, **__: object) -> None:
        """Evaluate the policy before its first step."""
        if self._engine is None or state.global_step % self._updates:
            return
        self._before = self._together.from_leader(self._engine.rollouts)
        if state.global_step == 0:
            self._evaluate()

    def on_step_end(
        self, args: object, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Evaluate if a multiple of the period was passed; stop at the budget."""
        if self._engine is None or state.global_step % self._updates:
            return
        rollouts = self._together.from_leader(self._engine.rollouts)
        every = self._trial.evaluate_every
        finished = rollouts >= self._trial.budget
        if finished or rollouts // every > self._before // every:
            self._evaluate()
        if finished:
            control.should_training_stop = True
            # A checkpoint here would be resumed for one step too many.
            control.should_save = False
        elif self._together.from_leader(self.stopping):
            control.should_training_stop = control.should_save = True


def resumes(trial: Trial) -> bool:
    """Return whether ``trial`` continues from a complete checkpoint; without one it begins anew.

    The value is for ``trainer.train``: the engine's attachment then skips, and removes, a
    checkpoint that a kill cut short.
    """
    return trial.resume and any(trial.directory.glob(f"*/{STATE_FILE}"))
