"""The sections of a run's configuration: the engine, and an arm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from evoprompt.errors import InputError
from evoprompt.experiments.settings import merge
from evoprompt.section import Settings
from evoprompt.validation import explain

MOST_ROLLOUTS = 10**12
"""Rollouts that a run may name."""


class Arm(BaseModel):
    """One way of training to compare, as differences from the run's own sections.

    Attributes:
        engine: settings that win over the run's ``engine``.
        host: settings that win over the run's ``host``.
        instructions: where to start; by default the task's seed instructions. An arm without a
            proposer keeps one instruction, the first.
        after: an arm named before this one. With each seed this arm starts where that one ended:
            with its trained policy and, unless ``instructions`` are given, its best instruction.
        seeds_from: a run, trial or checkpoint whose living instructions it starts from instead.
        budget: rollouts of this arm, where it differs from the run's.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    engine: Settings = Field(default_factory=dict)
    host: Settings = Field(default_factory=dict)
    instructions: tuple[str, ...] | None = Field(None, min_length=1)
    after: str | None = None
    seeds_from: str | None = Field(None, min_length=1)
    budget: int | None = Field(None, ge=1, le=MOST_ROLLOUTS)

    @model_validator(mode="after")
    def _check_start(self) -> Arm:
        if self.instructions is not None and self.seeds_from is not None:
            raise ValueError("instructions and seeds_from are both given; required: one of them")
        return self


class PoolSeed(BaseModel):
    """One instruction of a pool.

    Attributes:
        origin: trial and candidate, within the run it was read from.
        components: its texts.
        weight: its last importance weight; None if it was never measured.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    origin: str
    components: dict[str, str] = Field(min_length=1)
    weight: float | None = None


Pool = tuple[PoolSeed, ...]
"""Who was alive when the pool was read, the highest weight first."""


BUILT_IN_ARMS: Mapping[str, Settings] = {
    "static": {"engine": {"proposer": None}},
    "coevolve": {},
}
"""What these two names mean where a configuration does not say more."""


def arm_of(name: str, given: Any) -> Arm:
    """The arm that a configuration describes.

    Raises:
        InputError: it is no arm.
    """
    if not isinstance(given, Mapping | None):
        raise InputError(
            f"arm {name!r} is {given!r}; required: a mapping of {', '.join(Arm.model_fields)}, or "
            "nothing"
        )
    try:
        return Arm.model_validate(merge(BUILT_IN_ARMS.get(name, {}), given))
    except ValidationError as error:
        raise InputError(f"arm {name!r}: {explain(error, Arm)}") from error
