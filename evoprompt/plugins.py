"""Finds installed plugins, and builds the components they bring by their names.

pluggy calls the hooks: order and wrappers are its own. A plugin that cannot be loaded, or fails in
a hook, is left out from then on and named in ``Plugins.problems``; the rest works. Two components
of one role and name are both left out: choosing either of them would make a run depend on the order
of installation. A plugin that fails is named with the distribution that it comes from.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import reprlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast, overload

import pluggy
from packaging.utils import canonicalize_name
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    JsonValue,
    ValidationError,
)

from evoprompt import hookspecs
from evoprompt.components import BuildContext, Component
from evoprompt.roles import Attributor, Population, Proposer, Selector, Verifier
from evoprompt.support.calls import PLUGIN_GROUP, calling, cause_of
from evoprompt.support.errors import EvopromptError, InputError, PluginError, warn
from evoprompt.support.validation import explain, nearest

if TYPE_CHECKING:
    import typer

    from evoprompt.log.events import Event

BLOCK_VARIABLE = "EVOPROMPT_BLOCK"
"""Environment variable: names of plugins or distributions not to load, separated by commas."""

Item = TypeVar("Item")
_Named = tuple[str, type[Component]]

logger = logging.getLogger(__name__)


def _name_alone(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


def _check_name(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if not isinstance(value.get("name"), str) or not value["name"]:
        raise ValueError("a mapping with a 'name' is required, such as {name: sentence-edit}")
    return value


Choice = Annotated[dict[str, JsonValue], BeforeValidator(_name_alone), AfterValidator(_check_name)]
"""A component by name with its settings: ``{name: softmax}``, or just its name."""


class SharedSettings(BaseModel, extra="forbid"):
    """Settings that every proposer has, beside its own."""

    background: bool | None = Field(
        default=None,
        description="propose in a thread while training goes on; null for yes where the proposer "
        "asks a service",
    )
    fallback: Choice | None = Field(
        default=None, description="the proposer that is used when this one fails"
    )


def named(name: str, component: type[Component]) -> tuple[str, type[Component]]:
    """``component`` for a plugin to bring under another name than that of its class."""
    return name, component


@dataclass(frozen=True, slots=True)
class PluginSource:
    """Where a plugin comes from: one entry point of one distribution.

    Attributes:
        name: of the entry point, by which the plugin is known and blocked.
        distribution: that declares it.
        version: of the distribution.
        load: returns the module or object that holds the hook implementations.
        module: name of the module that is all of the plugin; empty if it is an object in one.
    """

    name: str
    distribution: str
    version: str
    load: Callable[[], object]
    module: str = ""

    def may_implement(self, hook: str) -> bool:
        """Return whether the plugin may implement ``hook``, without importing its module.

        False only if the source of the module can be read and does not name the hook.
        """
        if not self.module:
            return True
        try:
            spec = find_spec(self.module)  # imports the packages above the module
            loader: Any = spec and spec.loader
            source = loader.get_source(self.module)
        except Exception:  # whatever is wrong is reported where the plugin is loaded
            return True
        return source is None or hook in source

    def answers_to(self, names: Collection[str]) -> bool:
        """Return whether the plugin or its distribution is among ``names``, in any spelling."""
        spelt = {canonicalize_name(name) for name in names}
        return not spelt.isdisjoint(map(canonicalize_name, (self.name, self.distribution)))

    def __str__(self) -> str:
        return f"plugin {self.name!r} of {self.distribution} {self.version}"


@dataclass(frozen=True, slots=True)
class Registered:
    """A component that can be built by its name.

    Attributes:
        name: in configurations.
        component: its class.
        source: the plugin that brought it.
    """

    name: str
    component: type[Component]
    source: PluginSource

    @property
    def description(self) -> str:
        """Return the first line of the docstring."""
        return (self.component.__doc__ or "").strip().partition("\n")[0]

    def __str__(self) -> str:
        return f"{self.component.role} {self.name!r} ({self.source})"


class Plugins:
    """Registry of plugins and of their components.

    Args:
        sources: the plugins, in order of loading.
        block: names of plugins or distributions not to load.
        has_components: whether the components of the plugins are read, and not only their commands.

    Attributes:
        manager: pluggy's manager with every plugin that works.
        blocked: plugins that are left out because the user blocked them.
    """

    def __init__(
        self,
        sources: Iterable[PluginSource],
        block: Collection[str] = (),
        has_components: bool = True,
    ) -> None:
        self.manager = pluggy.PluginManager(PLUGIN_GROUP)
        self.manager.add_hookspecs(hookspecs)
        self.blocked: list[PluginSource] = []
        self._sources: dict[str, PluginSource] = {}
        self._failures: list[str] = []
        for source in sources:
            if source.answers_to(block):
                self.blocked.append(source)
            else:
                self._load(source)
        self._claims = self._claimed() if has_components else {}

    @property
    def problems(self) -> list[str]:
        """Return the plugins that do not work, with the reasons; a collision for each lost name."""
        collisions = [
            f"{claim.source}: {_collision(claims)}"
            for claims in self._claims.values()
            for claim in claims[1:]
        ]
        return [*self._failures, *collisions]

    def components(self, role: str | None = None) -> list[Registered]:
        """Return every component that can be built, by role and name, or those of one role."""
        return [
            claims[0]
            for (of, _), claims in sorted(self._claims.items())
            if len(claims) == 1 and role in (None, of)
        ]

    def find(self, role: str, name: str) -> Registered:
        """Return the component of this role and name.

        Raises:
            PluginError: there is none, or more than one.
        """
        claims = self._claims.get((role, name), [])
        if len(claims) > 1:
            raise PluginError(_collision(claims))
        if claims:
            return claims[0]
        names = [component.name for component in self.components(role)]
        absent = [f"not loaded: {problem}" for problem in self.problems]
        absent += [f"blocked: {source}" for source in self.blocked]
        raise PluginError(
            f"unknown {role} {name!r}{nearest(name, names)} (known: {', '.join(names) or 'none'}); "
            + "; ".join([*absent, "install the plugin that brings it"])
        )

    def validate(self, role: str, settings: Mapping[str, object]) -> BaseModel:
        """Return the validated settings of a component, defaults included.

        Args:
            role: role of the component.
            settings: its ``name``, and the fields of its own model.

        Raises:
            PluginError: the name is unknown.
            InputError: the settings do not suit the component.
        """
        return self._read(role, settings)[1]

    def build(
        self, role: str, settings: Mapping[str, object], context: BuildContext | None = None
    ) -> Component:
        """Build a component of ``role`` from ``settings``.

        Every proposer also has the settings ``background``, to propose in a thread during
        training, and ``fallback``, another proposer that is used when this one fails.

        Raises:
            PluginError: the name is unknown, or the component cannot be built.
            InputError: the settings do not suit the component, the context lacks an object, or
                the check of the component failed.
        """
        component, own_settings, around = self._read(role, settings)
        context = context or BuildContext()
        try:
            built = component.component.build(own_settings, context)
            if context.check:
                built.check()
        except EvopromptError:
            raise
        except (Exception, SystemExit) as error:
            raise PluginError(f"{component} could not be built: {cause_of(error)}") from error
        if role == Proposer.role:
            return self._wrapped(cast(Proposer, built), around, context)
        return built

    def _read(
        self, role: str, settings: Mapping[str, object]
    ) -> tuple[Registered, BaseModel, SharedSettings]:
        """Return the component, its own settings, and the settings of every proposer."""
        name = settings.get("name")
        if not isinstance(name, str):
            known_names = ", ".join(component.name for component in self.components(role))
            raise InputError(f"{role}: name is {name!r}; required: one of {known_names}")
        registered = self.find(role, name)
        model = registered.component.Settings
        own_settings = {key: value for key, value in settings.items() if key != "name"}
        shared = {}
        if issubclass(registered.component, Proposer):
            mine = SharedSettings.model_fields.keys() - model.model_fields.keys()
            shared = {key: own_settings.pop(key) for key in mine & own_settings.keys()}
        try:
            around = SharedSettings.model_validate(shared)
            return registered, model.model_validate(own_settings), around
        except ValidationError as error:
            raise InputError(f"{role} {name!r}: {explain(error, model)}") from error

    def _wrapped(
        self, proposer: Proposer, around: SharedSettings, context: BuildContext
    ) -> Proposer:
        from evoprompt.proposers.background import Background
        from evoprompt.proposers.combinators import Fallback

        background = type(proposer).slow if around.background is None else around.background
        if around.fallback is not None:
            # Both are asked in one thread.
            second = self.build("proposer", {"background": False, **around.fallback}, context)
            proposer = Fallback(proposer, cast(Proposer, second))
        proposer.is_waited_for = around.background is False
        return Background(proposer) if background else proposer

    def commands(self) -> list[typer.Typer]:
        """Return the command groups that plugins add to the command line."""
        return [group for _, group in self._brought("evoprompt_commands", _command_group)]

    def notify(self, event: Event) -> None:
        """Pass ``event`` to every plugin; a plugin that fails gets no further events."""
        for source, caller in self._alone("evoprompt_event"):
            try:
                with calling("hook", caller.get_hookimpls()[0].function, warn):
                    caller(event=event)
            except (Exception, SystemExit) as error:
                self._leave_out(source, f"evoprompt_event failed: {cause_of(error)}")

    def _load(self, source: PluginSource) -> None:
        earlier_source = self._sources.get(source.name)
        if earlier_source is not None:
            cause = f"the name of its entry point is taken by {earlier_source}; rename or block one"
            self._failures.append(f"{source}: {cause}")
            return
        self._sources[source.name] = source
        try:
            plugin = source.load()
            hash(plugin)  # pluggy leaves out only what has one
            self.manager.register(plugin, source.name)
            self.manager.check_pending()
        except (Exception, SystemExit) as error:
            self._leave_out(source, cause_of(error))
            return
        if not self.manager.get_hookcallers(plugin):
            self._leave_out(
                source, "it implements no hook; decorate functions with evoprompt.hookimpl"
            )

    def _leave_out(self, source: PluginSource, cause: str) -> None:
        """Stop calling the hooks of a plugin; its components stay."""
        if self.manager.has_plugin(source.name):
            self.manager.unregister(name=source.name)
        del self._sources[source.name]
        self._failures.append(f"{source}: {cause}")
        logger.warning("%s: %s", source, cause)

    def _claimed(self) -> dict[tuple[str, str], list[Registered]]:
        """Return the components by role and name, each with all plugins that have that name."""
        hook = "evoprompt_components"
        origins: dict[_Named, list[PluginSource]] = {}
        for source, named_component in self._brought(hook, _named_component):
            origins.setdefault(named_component, []).append(source)
        wrapping = [source for source, caller in self._alone(hook) if _wraps(caller)]
        components: Iterable[_Named] = origins
        if wrapping:  # they may change the components of other plugins
            try:
                returned = _ask(self.manager.hook.evoprompt_components)
                components = dict.fromkeys(map(_named_component, returned))
            except (Exception, SystemExit) as error:
                for source in wrapping:
                    self._leave_out(source, f"{hook} failed: {cause_of(error)}")
        claims: dict[tuple[str, str], list[Registered]] = {}
        for name, component in components:
            for source in origins.get((name, component), wrapping[-1:]):
                brought = Registered(name, component, source)
                claims.setdefault((component.role, name), []).append(brought)
        return claims

    def _brought(
        self, hook: str, read: Callable[[object], Item]
    ) -> Iterator[tuple[PluginSource, Item]]:
        """Return the results of a hook, plugin by plugin.

        A plugin that fails, or returns a value that ``read`` rejects, is not called again.
        """
        for source, caller in self._alone(hook):
            try:
                items = [read(item) for item in _ask(caller)]
            except (Exception, SystemExit) as error:
                self._leave_out(source, f"{hook} failed: {cause_of(error)}")
                continue
            yield from ((source, item) for item in items)

    def _alone(self, hook: str) -> Iterator[tuple[PluginSource, pluggy.HookCaller]]:
        """Return each plugin that has the hook, with a caller of its implementation alone."""
        for source in list(self._sources.values()):
            other_plugins = [
                plugin for name, plugin in self.manager.list_name_plugin() if name != source.name
            ]
            caller = self.manager.subset_hook_caller(hook, other_plugins)
            if caller.get_hookimpls():
                yield source, caller


def _ask(caller: pluggy.HookCaller) -> list[object]:
    answers = caller()
    if not answers and not _wraps(caller):
        answers = [None]  # which pluggy drops
    for answer in answers:
        if not isinstance(answer, Sequence) or isinstance(answer, str):
            raise InputError(f"it returned {reprlib.repr(answer)}; required: a list")
    return [item for answer in answers for item in answer]


def _wraps(caller: pluggy.HookCaller) -> bool:
    return any(
        implementation.wrapper or implementation.hookwrapper
        for implementation in caller.get_hookimpls()
    )


def _named_component(brought: object) -> tuple[str, type[Component]]:
    """Return name and class of an object that a plugin returned.

    Raises:
        InputError: the object is not the class of a component, or no configuration could name it.
    """
    name, component = brought if isinstance(brought, tuple) else ("", brought)
    if not isinstance(component, type) or not issubclass(component, Component):
        remedy = "return the class, which inherits evoprompt.Proposer or the base of another role"
        raise InputError(f"it brought {reprlib.repr(brought)}; required: classes; {remedy}")
    if not component.role:
        raise InputError(
            f"{component.__name__} has no role; required: one; inherit evoprompt.Proposer, "
            "Selector, Attributor, Verifier, Population or Task instead of evoprompt.Component"
        )
    name = name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", component.__name__).lower()
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise InputError(
            f"the name of {component.__name__} is {name!r}; required: lower-case words and digits "
            "joined by hyphens; return named('a-name', TheClass)"
        )
    return name, component


def _command_group(brought: object) -> typer.Typer:
    import typer

    if not isinstance(brought, typer.Typer):
        raise InputError(f"it brought {reprlib.repr(brought)}; required: objects of typer.Typer")
    return brought


def _collision(claims: Sequence[Registered]) -> str:
    claimants = " and ".join(str(claim.source) for claim in claims)
    return (
        f"{claims[0].component.role} {claims[0].name!r} is claimed by {claimants}; required: one; "
        f"block the other, for example {BLOCK_VARIABLE}={claims[-1].source.distribution}"
    )


def installed_sources() -> list[PluginSource]:
    """Return a source for each installed entry point of the group ``evoprompt``, our own first."""
    sources = [
        PluginSource(
            entry_point.name,
            entry_point.dist.name if entry_point.dist else "unknown",
            entry_point.dist.version if entry_point.dist else "unknown",
            entry_point.load,
            "" if entry_point.attr else entry_point.module,
        )
        for entry_point in metadata.entry_points(group=PLUGIN_GROUP)
    ]
    return sorted(
        sources,
        key=lambda source: (source.distribution != "evoprompt", source.distribution, source.name),
    )


@functools.cache
def plugins() -> Plugins:
    """Return the plugins of this environment, loaded once, without the blocked ones."""
    return Plugins(installed_sources(), block=_blocked_names())


def command_groups() -> list[typer.Typer]:
    """Return the command groups of plugins; only plugins that may bring some are imported."""
    hook = "evoprompt_commands"
    sources = [source for source in installed_sources() if source.may_implement(hook)]
    return Plugins(sources, block=_blocked_names(), has_components=False).commands()


def _blocked_names() -> list[str]:
    return os.environ.get(BLOCK_VARIABLE, "").replace(",", " ").split()


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
    role: Literal["attributor"], settings: Mapping[str, object], context: BuildContext | None = ...
) -> Attributor: ...
@overload
def build(
    role: Literal["verifier"], settings: Mapping[str, object], context: BuildContext | None = ...
) -> Verifier: ...
@overload
def build(
    role: Literal["population"], settings: Mapping[str, object], context: BuildContext | None = ...
) -> Population: ...
@overload
def build(role: str, settings: Mapping[str, object], context: BuildContext | None = ...) -> Any: ...


def build(role: str, settings: Mapping[str, object], context: BuildContext | None = None) -> object:
    """Build a component of an installed plugin; see :meth:`Plugins.build`.

    A component of a role of a layer above, such as a task, is an instance of its base class there.
    """
    return plugins().build(role, settings, context)


def require_type(name: str, value: object, *kinds: type) -> None:
    """Check that ``value`` is None or an instance of one of ``kinds``.

    Raises:
        InputError: it is another object, such as the name or the class of a component.
    """
    if value is not None and not isinstance(value, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        kind = kinds[0].__name__
        remedy = f"write {name}={kind}(...)"
        if issubclass(kinds[0], Component):
            built = f'evoprompt.plugins.build("{kind.lower()}", {{"name": ...}})'
            named = isinstance(value, str | type)
            remedy = f"make one, or call {built}" if named else f"inherit evoprompt.{kind}"
        description = f"{reprlib.repr(value)}, a {type(value).__name__}"
        raise InputError(f"{name} is {description}; required: {names}; {remedy}")
