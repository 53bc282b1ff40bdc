"""The sections of a run's configuration: the engine, and an arm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from evoprompt.config import EngineConfig
from evoprompt.errors import InputError
from evoprompt.experiments.settings import Settings, merge
from evoprompt.validation import explain

MOST_ROLLOUTS = 10**12
"""Rollouts that a run may name."""


def _name_alone(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


def _check_name(value: Settings) -> Settings:
    if not isinstance(value.get("name"), str) or not value["name"]:
        raise ValueError("a mapping with a 'name' is required, such as {name: sentence-edit}")
    return value


Choice = Annotated[Settings, BeforeValidator(_name_alone), AfterValidator(_check_name)]
"""A component by name with its settings: ``{name: deap, operator: best}``, or just its name."""


def _default_proposer() -> Settings:
    return {"name": "sentence-edit"}


class EngineSection(EngineConfig):
    """The engine of an arm: its numbers and, where not the engine's own, its components.

    Attributes:
        proposer: who writes new instructions; null keeps the instructions as they are given.
    """

    proposer: Choice | None = Field(default_factory=_default_proposer)
    sampler: Choice | None = None
    survivor: Choice | None = None
    parent_selector: Choice | None = None
    attributor: Choice | None = None
    verifier: Choice | None = None
    population: Choice | None = None

    @property
    def numbers(self) -> EngineConfig:
        """The settings that are the engine's own."""
        return EngineConfig.model_validate(self.model_dump(include=set(EngineConfig.model_fields)))


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
