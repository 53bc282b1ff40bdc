"""What a run found, in the schema of ``summary.json``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Literal

from pydantic import BaseModel, ConfigDict, NonNegativeFloat, NonNegativeInt, ValidationError

from evoprompt.errors import InputError
from evoprompt.evaluation import Evaluation, Headline
from evoprompt.storage import write_whole
from evoprompt.types import legible
from evoprompt.validation import explain

SCHEMA_VERSION: Literal[2] = 2
"""Of the files of a run. Those of version 1 do not state it, and name the metrics of one task."""

Points = Sequence[tuple[int, float]]
"""(rollouts, headline) of several evaluations."""


class SeedSummary(BaseModel):
    """One arm trained once.

    Attributes:
        seed: of the trainer and the engine.
        headline: what the values of ``test`` and ``curve`` are.
        test: the test split under the best instruction, decoded greedily.
        rollouts: spent in all, verification included.
        rollouts_to_target: rollouts at the first evaluation on validation that reached the run's
            target; None when there was none, or no target.
        train_seconds: wall-clock time of training, with its evaluations.
        engine_seconds: of those, inside the engine, verification rollouts excluded.
        verify_seconds: of those, in verification rollouts.
        best: the components of ``engine.best`` when training ended.
        curve: (rollouts, headline on validation) of every evaluation point.
        fruitless: why nothing evolved although generations were due; empty if something might.
        seeds_from: the run whose pool it started from; empty if it started from something else.
        limits: of an optimization that higher ones would take further, by setting; None where they
            would not, and in a training.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    seed: int
    headline: Headline
    test: Evaluation
    rollouts: NonNegativeInt
    rollouts_to_target: NonNegativeInt | None
    train_seconds: NonNegativeFloat
    engine_seconds: NonNegativeFloat
    verify_seconds: NonNegativeFloat
    best: dict[str, str]
    curve: Sequence[tuple[NonNegativeInt, float]]
    fruitless: str = ""
    seeds_from: str = ""
    limits: dict[str, float | None] | None = None

    @property
    def best_instruction(self) -> str:
        """The best candidate, as a person reads it."""
        return legible(self.best)


class Spread(BaseModel):
    """Mean and standard deviation over seeds; the latter is None for one seed."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    mean: float
    std: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of one or more values."""
        return cls(mean=fmean(values), std=stdev(values) if len(values) > 1 else None)


class ArmSummary(BaseModel):
    """Every finished seed of one arm, and their headline on the test split."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    seeds: Sequence[SeedSummary]
    test: Spread


class Summary(BaseModel):
    """A whole run.

    Attributes:
        schema_version: of the file.
        headline: by which its arms are compared; None while nothing is finished.
        target: the headline that the run was to reach, if one was set.
        arms: by name, in the order of the configuration.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    schema_version: Literal[2] = SCHEMA_VERSION
    headline: Headline | None
    target: float | None
    arms: Mapping[str, ArmSummary]

    @property
    def seeds(self) -> list[SeedSummary]:
        """The finished seeds of all arms."""
        return [seed for arm in self.arms.values() for seed in arm.seeds]

    @property
    def strata(self) -> list[str]:
        """Names of the groups of test questions."""
        return sorted({name for seed in self.seeds for name in seed.test.by_stratum})

    @property
    def metrics(self) -> list[str]:
        """Names of what was measured on the test split beside the headline."""
        return sorted({name for seed in self.seeds for name in seed.test.metrics})

    @classmethod
    def of(
        cls, results: Mapping[str, Sequence[SeedSummary]], target: float | None = None
    ) -> Summary:
        """The summary of the arms that have a result."""
        finished = {arm: seeds for arm, seeds in results.items() if seeds}
        return cls(
            headline=next((seeds[0].headline for seeds in finished.values()), None),
            target=target,
            arms={
                arm: ArmSummary(seeds=seeds, test=Spread.of([seed.test.value for seed in seeds]))
                for arm, seeds in finished.items()
            },
        )


def require_schema(found: int | None, path: Path) -> None:
    """Refuses a ``path`` that was written by another version of the package.

    Raises:
        InputError: ``found``, its schema version, is not this one's.
    """
    if found != SCHEMA_VERSION:
        raise InputError(
            f"{path} was written by another version of evoprompt (its schema is {found or 1}); "
            f"required: schema {SCHEMA_VERSION}; read it with the version that wrote it, or repeat "
            "the run: evoprompt run CONFIG --output DIR"
        )


def to_json(model: BaseModel) -> str:
    """The model as indented JSON."""
    return model.model_dump_json(indent=2) + "\n"


def rollouts_to(target: float | None, points: Points, headline: Headline) -> int | None:
    """Rollouts at the first of ``points`` that reaches ``target``; None if none does.

    >>> points = [(0, 0.2), (400, 0.7), (800, 0.85), (1200, 0.79)]
    >>> rollouts_to(0.8, points, Headline("accuracy", "accuracy"))
    800
    """
    if target is None:
        return None
    return next((rollouts for rollouts, value in points if headline.reaches(value, target)), None)


class Seconds(BaseModel, extra="forbid", allow_inf_nan=False):
    """Wall-clock time spent on a trial, work that a kill made repeat included.

    Attributes:
        train: in training, with its evaluations.
        engine: of it, inside the engine, verification rollouts excluded.
        verify: of it, in verification rollouts.
    """

    train: NonNegativeFloat = 0.0
    engine: NonNegativeFloat = 0.0
    verify: NonNegativeFloat = 0.0


class Clock:
    """Adds this process's time to what earlier ones spent on the same trial.

    Args:
        file: holds the time so far; there need not be one.

    Attributes:
        earlier: what they spent.

    Raises:
        InputError: the file holds something else.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._begun = time.perf_counter()
        try:
            self.earlier = Seconds.model_validate_json(file.read_bytes())
        except FileNotFoundError:
            self.earlier = Seconds()
        except ValidationError as error:
            raise InputError(
                f"{file} does not hold the time spent on a trial ({explain(error, Seconds)}); "
                "required: the file as it was written; delete it to count from 0"
            ) from error

    def save(self, engine: float = 0.0, verify: float = 0.0) -> Seconds:
        """Writes and returns the time spent so far, for a process that resumes the trial.

        Args:
            engine: seconds of this process inside the engine.
            verify: seconds of it in verification rollouts.
        """
        seconds = Seconds(
            train=self.earlier.train + time.perf_counter() - self._begun,
            engine=self.earlier.engine + engine,
            verify=self.earlier.verify + verify,
        )
        write_whole(self._file, seconds.model_dump_json())
        return seconds
