"""Finds every installed plugin and the components it brings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import pluggy
from pydantic import BaseModel

Role = Literal["proposer", "selector", "attributor", "verifier", "population", "task"]


class NoSettings(BaseModel, extra="forbid"):
    """For components that have nothing to set."""


@dataclass(frozen=True, slots=True)
class BuildContext:
    """What a component may use while it is built: the task of the run, None outside a run."""

    task: object | None = None


@dataclass(frozen=True, slots=True)
class Component:
    """One named implementation of a role.

    Attributes:
        role: which seat it fills.
        name: how a configuration names it, unique within its role.
        build: makes it from its validated settings.
        settings: pydantic model of its settings; unknown keys should be forbidden.
        description: one line for ``evoprompt plugins``.
    """

    role: Role
    name: str
    build: Callable[[BaseModel, BuildContext], object]
    settings: type[BaseModel] = NoSettings
    description: str = ""


def plugin_manager() -> pluggy.PluginManager: ...
