"""What a run found, in the schema of ``summary.json``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, ValidationError

from evoprompt.errors import InputError
from evoprompt.validation import explain

EXACT_MATCH = "exact_match"
"""The metric every evaluation must hold: the share of questions answered right, in [0, 1]."""

TARGET = 0.8
"""The exact match whose price in rollouts a summary states."""


class SeedSummary(BaseModel):
    """One arm trained once.

    Attributes:
        seed: of the trainer and the engine.
        test_em: exact match on the test split under the best instruction, decoded greedily.
        test_em_by_hops: the same by stratum; search-QA's strata are the hops of a question.
        tool_calls: mean tool calls a test question; None when the task does not count them.
        rollouts: spent in all, verification included.
        rollouts_to_target: rollouts at the first evaluation point with a validation exact match
            of at least 0.8; None when there was none.
        train_seconds: wall-clock time of training, with its evaluations.
        engine_seconds: of those, inside the engine, verification rollouts excluded.
        verify_seconds: of those, in verification rollouts.
        best_instruction: the text of ``engine.best`` when training ended.
        curve: (rollouts, validation exact match) of every evaluation point.
        fruitless: why nothing evolved although generations were due; empty if something might.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, allow_inf_nan=False
    )

    seed: int
    test_em: float
    test_em_by_hops: Mapping[str, float]
    tool_calls: float | None
    rollouts: NonNegativeInt
    rollouts_to_target: NonNegativeInt | None = Field(
        validation_alias="rollouts_to_em_0.8", serialization_alias="rollouts_to_em_0.8"
    )
    train_seconds: NonNegativeFloat
    engine_seconds: NonNegativeFloat
    verify_seconds: NonNegativeFloat
    best_instruction: str
    curve: Sequence[tuple[NonNegativeInt, float]]
    fruitless: str = ""


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
    """Every finished seed of one arm."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    seeds: Sequence[SeedSummary]
    test_em: Spread


class Summary(BaseModel):
    """A whole run: its arms by name, in the order of the configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    arms: Mapping[str, ArmSummary]

    @classmethod
    def of(cls, results: Mapping[str, Sequence[SeedSummary]]) -> Summary:
        """The summary of the arms that have a result."""
        return cls(
            arms={
                arm: ArmSummary(seeds=seeds, test_em=Spread.of([seed.test_em for seed in seeds]))
                for arm, seeds in results.items()
                if seeds
            }
        )

    @classmethod
    def read(cls, path: Path) -> Summary:
        """The summary in the file ``path``.

        Raises:
            InputError: there is none, or it is not of this schema.
        """
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            why = explain(error, cls) if isinstance(error, ValidationError) else str(error)
            raise InputError(
                f"{path} cannot be read as a summary ({why}); required: the summary.json of a run"
            ) from error


def to_json(model: BaseModel) -> str:
    """The model as indented JSON with the file's own names."""
    return model.model_dump_json(by_alias=True, indent=2) + "\n"


def curve(events: Iterable[Mapping[str, Any]]) -> list[tuple[int, float]]:
    """(rollouts, exact match) of every evaluation on the validation split, oldest first."""
    return [
        (event["rollouts"], event["metrics"][EXACT_MATCH])
        for event in events
        if event["event"] == "evaluated" and event["split"] == "validation"
    ]


def rollouts_to(points: Iterable[tuple[int, float]], target: float = TARGET) -> int | None:
    """Rollouts at the first of ``points`` with an exact match of at least ``target``.

    >>> rollouts_to([(0, 0.2), (400, 0.7), (800, 0.85), (1200, 0.79)])
    800
    """
    return next((rollouts for rollouts, value in points if value >= target), None)
