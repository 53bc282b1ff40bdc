"""Base class of all components that a configuration can name, and the context for building them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, JsonValue

if TYPE_CHECKING:
    from evoprompt.lm.budget import SpendTracker


def _new_tracker() -> SpendTracker:
    from evoprompt.lm.budget import SpendTracker  # imports much; listing components needs none

    return SpendTracker()


__all__ = ["BuildContext", "Component", "NoSettings", "ProposerSyntax"]


class NoSettings(BaseModel, extra="forbid"):
    """Settings of a component without settings."""


@dataclass(frozen=True, slots=True)
class ProposerSyntax:
    """Syntax by which a user sets the proposer; messages name it as a remedy.

    Attributes:
        writer: sets a proposer that uses a language model.
        static: sets no proposer.
    """

    writer: str = '{"name": "reflection", "lm": {"model": "openai/gpt-5-mini"}}'
    static: str = "proposer=None"


@dataclass(frozen=True, slots=True)
class BuildContext:
    """Objects that a component may use while it is built; none is needed outside a run.

    Attributes:
        task: the task of the run, if there is one.
        directory: folder of the trial, for a component that writes files.
        spending: account of all language models of the run.
        check: whether a component is checked as soon as it is built.
        connection: a language model as an object, used instead of the model that the settings
            name: a ``dspy.LM``, or a function of a prompt.
        syntax: how the user sets the proposer; that of Python if not given.
    """

    task: object = None
    directory: Path | None = None
    spending: SpendTracker = field(default_factory=_new_tracker)
    check: bool = True
    connection: object = None
    syntax: ProposerSyntax = ProposerSyntax()


class Component:
    """Base class of all roles, with methods that an implementation may override.

    A plugin returns the class from its hook ``evoprompt_components``. A configuration names it by
    the name of the class (``WindowMean`` is ``window-mean``), and the first line of the docstring
    is its description.

    Attributes:
        role: name of the role; the base class of the role sets it.
        Settings: pydantic model of what a configuration may set; it forbids other keys.
    """

    role: ClassVar[str] = ""
    Settings: ClassVar[type[BaseModel]] = NoSettings

    @classmethod
    def build(cls, settings: Any, context: BuildContext) -> Component:
        """Build a component from its settings, which are its arguments by default.

        Import slow modules in this method, and not in the module of the class.

        Args:
            settings: an instance of ``Settings``.
            context: other objects that it may use.
        """
        return cls(**dict(settings))

    def check(self, probe: bool = False) -> None:
        """Check that the component can work here, as far as is visible without a request.

        ``evoprompt.plugins.build`` checks each component that it has built; ``attach``,
        ``evoprompt run`` and veRL's start also probe, so that a wrong key is reported before the
        training and not after it.

        Args:
            probe: also send one cheap request to the service behind it, unless the service has
                responded before in this run.

        Raises:
            InputError: the component cannot work; the message names the given value, the
                requirement and the remedy.
        """

    def notices(self) -> Sequence[str]:
        """Return new messages for the user; the engine logs each as a Notice event.

        The engine calls this in its own thread, after every ``propose`` and before every ``tell``
        returns.
        """
        return ()

    def metrics(self) -> Mapping[str, float]:
        """Return totals of the run so far, such as ``lm/calls`` and ``lm/usd``, to be logged."""
        return {}

    def state_dict(self) -> dict[str, JsonValue]:
        """Return the state that a resume needs, as JSON values."""
        return {}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continue from ``state``.

        Raises:
            StateError: the state does not fit this component.
        """
