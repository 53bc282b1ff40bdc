"""What a plugin brings: named implementations of the roles, each with a model of its settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from inspect import get_annotations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_args

from pydantic import BaseModel

from evoprompt.lm.budget import SpendTracker

if TYPE_CHECKING:
    from evoprompt.agents.tasks import Task

Role = Literal[
    "proposer", "selector", "attributor", "verifier", "population", "task", "host", "launcher"
]
ROLES: tuple[Role, ...] = get_args(Role)

Settings = TypeVar("Settings", bound=BaseModel)


class NoSettings(BaseModel, extra="forbid"):
    """For components that have nothing to set."""


@dataclass(frozen=True, slots=True)
class BuildContext:
    """What a component may use while it is built; nothing is needed outside a run.

    Attributes:
        task: the task of the run.
        directory: where the trial writes, for a component that keeps files of its own.
        spending: what all language models of the run spend.
        given: a language model that was handed over as an object, to be asked in place of the one
            that the settings name; a ``dspy.LM``, or a function of a prompt.
        check: whether a component that is :class:`~evoprompt.roles.Checkable` is checked
            as soon as it is built.
    """

    task: Task | None = None
    directory: Path | None = None
    spending: SpendTracker = field(default_factory=SpendTracker)
    check: bool = True
    given: object = None


@dataclass(frozen=True, slots=True)
class Component(Generic[Settings]):
    """One named implementation of a role.

    Attributes:
        role: which seat it fills.
        name: how a configuration names it, unique within its role: lower-case words and digits,
            joined by hyphens.
        build: makes it from its validated settings; import what is slow in here.
        settings: pydantic model of its settings; unknown keys should be forbidden.
        description: one line for ``evoprompt plugins``.

    Raises:
        ValueError: the role does not exist, or the name is not of that form.
    """

    role: Role
    name: str
    build: Callable[[Settings, BuildContext], object]
    settings: type[Settings] = NoSettings  # type: ignore[assignment]
    description: str = ""

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ValueError(f"role is {self.role!r}; required: one of {', '.join(ROLES)}")
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.name):
            raise ValueError(
                f"name is {self.name!r}; required: lower-case words and digits joined by hyphens"
            )


AnyComponent = Component[Any]

_HOMES: Mapping[Role, str] = {
    "task": "agents.tasks",
    "host": "agents.tasks",
    "launcher": "experiments.launchers.base",
}


def members(role: Role) -> list[str]:
    """The public names that an implementation of ``role`` must have."""
    home = import_module(f"evoprompt.{_HOMES.get(role, 'roles')}")
    protocol = getattr(home, role.capitalize())
    named = {**vars(protocol), **get_annotations(protocol)}
    return [
        name
        for name in named
        if not name.startswith("_") and getattr(named[name], "__isabstractmethod__", True)
    ]
