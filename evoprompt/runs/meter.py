"""An engine that knows how long it took, and that stops a run between two steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel

from evoprompt.engine import Engine
from evoprompt.interfaces import RolloutFn
from evoprompt.runs.directory import write_whole
from evoprompt.types import Assignment, EvolveReport, Question, StepReport, Trajectory


class Seconds(BaseModel):
    """Wall-clock time of one trial, work repeated after a kill included.

    Attributes:
        train: in training, with its evaluations.
        engine: of it, inside the engine, verification rollouts excluded.
        verify: of it, in verification rollouts.
    """

    train: float = 0.0
    engine: float = 0.0
    verify: float = 0.0

    @contextmanager
    def training(self) -> Iterator[None]:
        """Counts the time inside as training."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.train += time.perf_counter() - begun

    @contextmanager
    def in_engine(self) -> Iterator[None]:
        """Counts the time inside as the engine's, less what is verification."""
        begun, verified = time.perf_counter(), self.verify
        try:
            yield
        finally:
            self.engine += time.perf_counter() - begun - (self.verify - verified)

    @contextmanager
    def verifying(self) -> Iterator[None]:
        """Counts the time inside as verification."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.verify += time.perf_counter() - begun


class MeteredEngine(Engine):
    """An engine that counts its seconds and asks between two steps whether to go on.

    Attributes:
        seconds: time spent so far.
        stopping: asked before every step; once it says yes, ``ask`` raises ``KeyboardInterrupt``
            while the trainer and the engine agree, so that a checkpoint can be saved.
    """

    seconds: Seconds
    stopping: Callable[[], bool]

    def ask(self, questions: Sequence[Question], rollouts: int) -> list[Assignment]:
        """As :meth:`Engine.ask`."""
        if self.stopping():
            raise KeyboardInterrupt
        with self.seconds.in_engine():
            return super().ask(questions, rollouts)

    def tell(self, trajectories: Sequence[Trajectory]) -> StepReport:
        """As :meth:`Engine.tell`."""
        with self.seconds.in_engine():
            return super().tell(trajectories)

    def evolve(self, rollout: RolloutFn) -> EvolveReport:
        """As :meth:`Engine.evolve`."""

        def timed(assignments: Sequence[Assignment]) -> Sequence[Trajectory]:
            with self.seconds.verifying():
                return rollout(assignments)

        with self.seconds.in_engine():
            return super().evolve(timed)
