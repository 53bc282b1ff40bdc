"""Sections of a run's configuration: the engine, and an arm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from evoprompt.experiments.settings import merge
from evoprompt.hosting.section import Settings
from evoprompt.support.errors import InputError
from evoprompt.support.validation import validate_settings

MOST_ROLLOUTS = 10**12
"""Rollouts that a run may name."""


Instructions = tuple[str | dict[str, str], ...]


class Arm(BaseModel, frozen=True, extra="forbid"):
    """Arm to compare, as differences from the run's own sections.

    Attributes:
        engine: settings that win over the run's ``engine``.
        host: settings that win over the run's ``host``.
        instructions: where to start, each a text or the texts of its components; by default the
            task's seed instructions, of which an arm without a proposer keeps the first.
        after: an arm named before this one. With each seed this arm starts where that one ended:
            with its trained policy and, unless ``instructions`` are given, its best instruction.
        budget: rollouts of this arm, where it differs from the run's.
        distill: takes supervised steps on the good ones of ``budget`` rollouts that the policy of
            ``after`` makes under its best instruction, shown under the first of ``instructions``,
            the task's by default. Nothing evolves.
    """

    engine: Settings = Field(default_factory=dict)
    host: Settings = Field(default_factory=dict)
    instructions: Instructions | None = Field(None, min_length=1)
    after: str | None = None
    budget: int | None = Field(None, ge=1, le=MOST_ROLLOUTS)
    distill: bool = False


BUILT_IN_ARMS: Mapping[str, Settings] = {
    "static": {"engine": {"proposer": None}},
    "coevolve": {},
}
"""Settings of these two names, which a configuration may extend."""


def arm_of(name: str, values: Any) -> Arm:
    """Return the arm that a configuration describes.

    Raises:
        InputError: it is no arm.
    """
    if not isinstance(values, Mapping | None):
        raise InputError(
            f"arm {name!r} is {values!r}; required: a mapping of {', '.join(Arm.model_fields)}, or "
            "nothing"
        )
    return validate_settings(Arm, merge(BUILT_IN_ARMS.get(name, {}), values), f"arm {name!r}")
