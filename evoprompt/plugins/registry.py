"""Finds every installed plugin and the components it brings.

A plugin that cannot be loaded, and a hook that fails, is left out and named in
``Plugins.problems``; the rest works. Two components of one role and name are both left out:
choosing either of them would make a run depend on the order of installation.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import reprlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar, overload

import pluggy
from pydantic import BaseModel, ValidationError

from evoprompt import hookspecs
from evoprompt.errors import EvopromptError, InputError, PluginError
from evoprompt.plugins.component import ROLES, AnyComponent, BuildContext, Component, Role, members
from evoprompt.plugins.sources import PluginSource, installed_sources
from evoprompt.roles import Component as RoleBase
from evoprompt.validation import explain, nearest

if TYPE_CHECKING:
    import typer

    from evoprompt.agents.tasks import Host, Task
    from evoprompt.events import Event
    from evoprompt.experiments.launchers.base import Launcher
    from evoprompt.roles import Attributor, Population, Proposer, Selector, Verifier

BLOCK_VARIABLE = "EVOPROMPT_BLOCK"
"""Environment variable: names of plugins or distributions not to load, separated by commas."""

Answer = TypeVar("Answer")
_ABSENT = object()

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Registered:
    """A component that can be built, and the plugin that brought it."""

    component: AnyComponent
    source: PluginSource


@dataclass(frozen=True, slots=True)
class Problem:
    """A plugin, or one of its hooks, that does not work.

    Attributes:
        source: whose it is.
        cause: what went wrong, in one line.
    """

    source: PluginSource
    cause: str

    def __str__(self) -> str:
        return f"{self.source}: {self.cause}"


class Plugins:
    """Loads plugins and holds what they bring.

    Args:
        sources: the plugins, in order of loading.
        block: names of plugins or distributions not to load.

    Attributes:
        manager: pluggy's manager with every plugin that works.
        blocked: plugins that are left out because somebody blocked them.
    """

    def __init__(self, sources: Iterable[PluginSource], block: Collection[str] = ()) -> None:
        self.manager = pluggy.PluginManager(hookspecs.GROUP)
        self.manager.add_hookspecs(hookspecs)
        self.blocked: list[PluginSource] = []
        self._sources: dict[str, PluginSource] = {}
        self._failures: list[Problem] = []
        self._failed_hooks: set[tuple[str, PluginSource]] = set()
        self._claims: dict[tuple[Role, str], list[Registered]] = {}
        for source in sources:
            if source.answers_to(block):
                self.blocked.append(source)
            else:
                self._load(source)
        for source, component in self._gather("evoprompt_components", Component):
            self._claims.setdefault((component.role, component.name), []).append(
                Registered(component, source)
            )

    @property
    def problems(self) -> list[Problem]:
        """What does not work, and why; collisions are named once for each that lost its name."""
        collisions = [
            Problem(claim.source, _collision(claims))
            for claims in self._claims.values()
            for claim in claims[1:]
        ]
        return [*self._failures, *collisions]

    def block(self, names: Collection[str]) -> None:
        """Leaves out the plugins, or all plugins of the distributions, of these names."""
        for source in list(self._sources.values()):
            if source.answers_to(names):
                self._remove(source)
                self.blocked.append(source)

    def components(self, role: Role | None = None) -> list[Registered]:
        """Every component that can be built, by role and name; of one role if it is given."""
        found = [claims[0] for claims in self._claims.values() if len(claims) == 1]
        return sorted(
            (one for one in found if role in (None, one.component.role)),
            key=lambda one: (ROLES.index(one.component.role), one.component.name),
        )

    def find(self, role: Role, name: str) -> Registered:
        """The component of this role and name.

        Raises:
            PluginError: there is none, or more than one.
        """
        claims = self._claims.get((role, name), [])
        if len(claims) > 1:
            raise PluginError(_collision(claims))
        if claims:
            return claims[0]
        names = [one.component.name for one in self.components(role)]
        absent = [f"not loaded: {problem}" for problem in self.problems]
        absent += [f"blocked: {source}" for source in self.blocked]
        raise PluginError(
            f"unknown {role} {name!r}{nearest(name, names)} (known: {', '.join(names) or 'none'}); "
            + "; ".join([*absent, "install the plugin that brings it"])
        )

    def validate(self, role: Role, settings: Mapping[str, object]) -> BaseModel:
        """The settings as the model of the component they name reads them, defaults included.

        Args:
            role: which seat the component is for.
            settings: its ``name``, and whatever its own model asks for.

        Raises:
            PluginError: the name is unknown.
            InputError: the settings do not suit the component.
        """
        name = settings.get("name")
        if not isinstance(name, str):
            known = ", ".join(one.component.name for one in self.components(role))
            raise InputError(f"{role}: name is {name!r}; required: one of {known}")
        model: type[BaseModel] = self.find(role, name).component.settings
        try:
            return model.model_validate({key: settings[key] for key in settings if key != "name"})
        except ValidationError as error:
            raise InputError(f"{role} {name!r}: {explain(error, model)}") from error

    def build(
        self, role: Role, settings: Mapping[str, object], context: BuildContext | None = None
    ) -> object:
        """A new component of ``role``, as ``settings`` describe it; see :meth:`validate`.

        Raises:
            PluginError: the name is unknown, or the plugin does not build what it promises.
            InputError: the settings do not suit the component, the context lacks what it needs, or
                the component says that it cannot work here.
        """
        validated = self.validate(role, settings)
        context = context or BuildContext()
        found = self.find(role, str(settings["name"]))
        who = f"{role} {found.component.name!r} ({found.source})"
        try:
            built: object = found.component.build(validated, context)
            if context.check and isinstance(built, RoleBase):
                built.check()
        except EvopromptError:
            raise
        except Exception as error:
            raise PluginError(f"{who} could not be built: {_cause(error)}") from error
        missing = [name for name in members(role) if not _has(built, name)]
        if missing:
            raise PluginError(
                f"{who} built a {type(built).__name__} without {', '.join(missing)}; "
                f"required: the protocol of a {role}"
            )
        return built

    def commands(self) -> list[typer.Typer]:
        """The command groups that plugins add to the command line."""
        import typer

        return [group for _, group in self._gather("evoprompt_commands", typer.Typer)]

    def notify(self, event: Event) -> None:
        """Shows ``event`` to every plugin; one that fails is not shown another."""
        self._call_each("evoprompt_event", event=event)

    def _load(self, source: PluginSource) -> None:
        taken = self._sources.get(source.name)
        if taken is not None:
            self._fail(
                source, f"the name of its entry point is taken by {taken}; rename or block one"
            )
            return
        self._sources[source.name] = source
        try:
            self.manager.register(source.load(), source.name)
            self.manager.check_pending()
        except (Exception, SystemExit) as error:
            self._remove(source)
            self._fail(source, _cause(error))
            return
        if not self.manager.get_hookcallers(self.manager.get_plugin(source.name)):
            self._remove(source)
            self._fail(source, "it implements no hook; decorate functions with evoprompt.hookimpl")

    def _remove(self, source: PluginSource) -> None:
        if self.manager.has_plugin(source.name):
            self.manager.unregister(name=source.name)
        del self._sources[source.name]
        for key, claims in list(self._claims.items()):
            self._claims[key] = [claim for claim in claims if claim.source != source]
            if not self._claims[key]:
                del self._claims[key]

    def _fail(self, source: PluginSource, cause: str) -> None:
        problem = Problem(source, cause)
        self._failures.append(problem)
        logger.warning("%s", problem)

    def _gather(self, hook: str, kind: type[Answer]) -> list[tuple[PluginSource, Answer]]:
        gathered = []
        for source, answer in self._call_each(hook):
            if isinstance(answer, Sequence) and all(isinstance(item, kind) for item in answer):
                gathered += [(source, item) for item in answer]
            else:
                self._failed_hooks.add((hook, source))
                required = f"required: a sequence of {kind.__name__}"
                self._fail(source, f"{hook} returned {reprlib.repr(answer)}; {required}")
        return gathered

    def _call_each(self, hook: str, **arguments: object) -> list[tuple[PluginSource, object]]:
        """Calls one hook plugin by plugin; where it fails once it is not called again."""
        answers = []
        implementations: list[pluggy.HookImpl] = getattr(self.manager.hook, hook).get_hookimpls()
        for implementation in implementations:
            source = self._sources[implementation.plugin_name]
            if (hook, source) in self._failed_hooks:
                continue
            try:
                given = {name: arguments[name] for name in implementation.argnames}
                answers.append((source, implementation.function(**given)))
            except Exception as error:
                self._failed_hooks.add((hook, source))
                self._fail(source, f"{hook} failed: {_cause(error)}")
        return answers


def _has(built: object, name: str) -> bool:
    """Whether ``built`` has a member, without computing it if it is a property."""
    return inspect.getattr_static(built, name, _ABSENT) is not _ABSENT


def _cause(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _collision(claims: Sequence[Registered]) -> str:
    component = claims[0].component
    claimants = " and ".join(str(claim.source) for claim in claims)
    return (
        f"{component.role} {component.name!r} is claimed by {claimants}; required: one; "
        f"block the other, for example {BLOCK_VARIABLE}={claims[-1].source.distribution}"
    )


@functools.cache
def plugins() -> Plugins:
    """The plugins installed in this environment, loaded once, less those that it blocks."""
    blocked = os.environ.get(BLOCK_VARIABLE, "").replace(",", " ").split()
    return Plugins(installed_sources(), block=blocked)


def plugin_manager() -> pluggy.PluginManager:
    """The pluggy manager of the installed plugins."""
    return plugins().manager


def components(role: Role | None = None) -> list[Registered]:
    """Every installed component that can be built, by role and name."""
    return plugins().components(role)


@overload
def build(
    role: Literal["proposer"], settings: Mapping[str, object], context: BuildContext | None = ...
) -> Proposer: ...
@overload
def build(
    role: Literal["selector"], settings: Mapping[str, object], context: BuildContext | None = ...
) -> Selector: ...
@overload
def build(
    role: Literal["attributor"],
    settings: Mapping[str, object],
    context: BuildContext | None = ...,
) -> Attributor: ...
@overload
def build(
    role: Literal["verifier"], settings: Mapping[str, object], context: BuildContext | None = ...
) -> Verifier: ...
@overload
def build(
    role: Literal["population"],
    settings: Mapping[str, object],
    context: BuildContext | None = ...,
) -> Population: ...
@overload
def build(
    role: Literal["task"], settings: Mapping[str, object], context: BuildContext | None = ...
) -> Task: ...
@overload
def build(
    role: Literal["host"], settings: Mapping[str, object], context: BuildContext | None = ...
) -> Host: ...
@overload
def build(
    role: Literal["launcher"], settings: Mapping[str, object], context: BuildContext | None = ...
) -> Launcher: ...


def build(
    role: Role, settings: Mapping[str, object], context: BuildContext | None = None
) -> object:
    """A new component of an installed plugin; see :meth:`Plugins.build`."""
    return plugins().build(role, settings, context)
