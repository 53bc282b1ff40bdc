"""An engine as a section of a configuration: its numbers, and its components by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field, JsonValue

from evoprompt.components import BuildContext
from evoprompt.config import EngineConfig
from evoprompt.plugins import Choice, build

if TYPE_CHECKING:  # slow to import; a configuration is read, and its run announced, without
    from evoprompt.engine import Engine
    from evoprompt.log.eventlog import EventLog
    from evoprompt.screening import Seed

Settings = dict[str, JsonValue]
"""A mapping of a configuration."""


def _default_proposer() -> Settings:
    return {"name": "sentence-edit"}


class EngineSection(EngineConfig, frozen=True):
    """Engine in a configuration: its numbers and the components that are set.

    Attributes:
        proposer: proposer of new instructions; null keeps the given instructions.
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
        """Return the settings of the engine itself."""
        return EngineConfig.model_validate(self.model_dump(include=set(EngineConfig.model_fields)))

    def engine(
        self,
        seeds: Sequence[Seed],
        context: BuildContext,
        seed: int,
        required: Sequence[str] = (),
        log: EventLog | None = None,
    ) -> Engine:
        """Build the engine.

        Args:
            seeds: the first candidates.
            context: objects that its components may use.
            seed: seed of its random generator.
            required: substrings that every instruction must hold.
            log: event log; in memory if not given.

        Raises:
            PluginError: a component is unknown or cannot be built.
            InputError: a setting or a seed instruction cannot be used.
        """
        from evoprompt.engine import Engine

        def built(role: str, chosen: Settings | None) -> Any:
            return build(role, chosen, context) if chosen else None

        return Engine(
            seeds,
            config=self.numbers,
            seed=seed,
            log=log,
            required=required,
            proposer=built("proposer", self.proposer),
            sampler=built("selector", self.sampler),
            survivor=built("selector", self.survivor),
            parent_selector=built("selector", self.parent_selector),
            attributor=built("attributor", self.attributor),
            verifier=built("verifier", self.verifier),
            population=built("population", self.population),
        )
