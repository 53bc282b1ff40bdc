"""Results of a run, in the form of ``summary.json``."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import (
    BaseModel,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    TypeAdapter,
    ValidationError,
)

from evoprompt.log.evaluation import Evaluation, MainMetric, Spread
from evoprompt.support.errors import InputError
from evoprompt.support.storage import write_whole
from evoprompt.support.text import format_error
from evoprompt.types import legible

_SECONDS = TypeAdapter(Annotated[float, Field(ge=0, allow_inf_nan=False)])

Points = Sequence[tuple[int, float]]
"""(rollouts, main metric) of several evaluations."""


class SeedSummary(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """Result of one arm with one seed.

    Attributes:
        seed: of the trainer and the engine.
        main_metric: metric of ``test`` and ``curve``.
        test: the test split under the best instruction, decoded greedily.
        rollouts: spent in all, verification included.
        rollouts_to_target: rollouts at the first evaluation on validation that reached the run's
            target; None when there was none, or no target.
        train_seconds: wall-clock time of training, with its evaluations.
        best: the components of ``engine.best`` when training ended.
        curve: (rollouts, main metric on validation) of every evaluation point.
        failure_reason: reason why nothing evolved although generations were due; empty if a
            generation worked.
        tested_after: rollouts after which the tested policy was saved, which has the best
            validation of all evaluations; None for the last policy, if only that is saved.
    """

    seed: int
    main_metric: MainMetric
    test: Evaluation
    rollouts: NonNegativeInt
    rollouts_to_target: NonNegativeInt | None
    train_seconds: NonNegativeFloat
    best: dict[str, str]
    curve: Sequence[tuple[NonNegativeInt, float]]
    failure_reason: str = ""
    tested_after: NonNegativeInt | None = None

    @property
    def best_instruction(self) -> str:
        """Return the best candidate in readable form."""
        return legible(self.best)


class ArmSummary(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """Finished seeds of one arm, and their main metric on the test split."""

    seeds: Sequence[SeedSummary]
    test: Spread


class Summary(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """Results of a whole run.

    Attributes:
        main_metric: by which its arms are compared; None while nothing is finished.
        target: value of the main metric to reach, if one was set.
        arms: by name, in the order of the configuration.
    """

    main_metric: MainMetric | None
    target: float | None
    arms: Mapping[str, ArmSummary]

    @property
    def seeds(self) -> list[SeedSummary]:
        """Return the finished seeds of all arms."""
        return [seed for arm in self.arms.values() for seed in arm.seeds]

    @property
    def kinds(self) -> list[str]:
        """Return the names of the kinds of test questions."""
        return sorted({name for seed in self.seeds for name in seed.test.by_kind})

    @property
    def metrics(self) -> list[str]:
        """Return the names of the metrics on the test split except the main metric."""
        return sorted({name for seed in self.seeds for name in seed.test.metrics})

    @classmethod
    def of(
        cls, results: Mapping[str, Sequence[SeedSummary]], target: float | None = None
    ) -> Summary:
        """Return the summary of the arms that have a result."""
        finished = {arm: seeds for arm, seeds in results.items() if seeds}
        return cls(
            main_metric=next((seeds[0].main_metric for seeds in finished.values()), None),
            target=target,
            arms={
                arm: ArmSummary(seeds=seeds, test=Spread.of([seed.test.value for seed in seeds]))
                for arm, seeds in finished.items()
            },
        )


def to_json(model: BaseModel) -> str:
    """Return the model as indented JSON."""
    return model.model_dump_json(indent=2) + "\n"


def rollouts_to(target: float | None, points: Points, main_metric: MainMetric) -> int | None:
    """Return the rollouts at the first of ``points`` that reaches ``target``; None if none does.

    >>> points = [(0, 0.2), (400, 0.7), (800, 0.85), (1200, 0.79)]
    >>> rollouts_to(0.8, points, MainMetric("accuracy", "accuracy"))
    800
    """
    if target is None:
        return None
    return next(
        (rollouts for rollouts, value in points if main_metric.reaches(value, target)), None
    )


class Clock:
    """Clock that adds this process's seconds to those of earlier processes on the same trial.

    Args:
        file: holds the seconds so far; there need not be one.

    Attributes:
        earlier: seconds of earlier processes, killed processes included.

    Raises:
        InputError: the file holds something else.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._begun = time.perf_counter()
        try:
            self.earlier = _SECONDS.validate_json(file.read_bytes())
        except FileNotFoundError:
            self.earlier = 0.0
        except ValidationError as error:
            raise InputError(
                f"{file} does not hold the seconds spent on a trial ({format_error(error)}); "
                "required: the file as it was written; delete it to count from 0"
            ) from error

    def save(self) -> float:
        """Write and return the seconds spent so far, for a process that resumes the trial."""
        seconds = self.earlier + time.perf_counter() - self._begun
        write_whole(self._file, json.dumps(seconds))
        return seconds
