"""How an adapter recognises its host, and refuses one that it does not know."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType

from packaging.version import Version

from evoprompt.errors import AttachError, warn


def is_instance(given: object, module: str, name: str) -> bool:
    """Whether ``given`` is of a class that is not imported to find out."""
    found = getattr(sys.modules.get(module), name, None)
    return isinstance(found, type) and isinstance(given, found)


def require_version(name: str, version: str, minimum: str, tested: str) -> None:
    """Refuses a host that is too old; warns of one that is newer than what was tested.

    Args:
        name: of its distribution.
        version: that is installed.
        minimum: the oldest that has what the adapter needs.
        tested: the newest that the tests were run with.

    Raises:
        AttachError: it is too old.
    """
    if Version(version) < Version(minimum):
        raise AttachError(
            f"{name} {version} is too old; required: {name}>={minimum}; "
            f'pip install --upgrade "{name}>={minimum}"'
        )
    parts = len(Version(tested).release)
    if Version(version).release[:parts] > Version(tested).release:
        warn(
            f"{name} {version} is newer than {tested}, the newest that evoprompt was tested with; "
            f'should anything look odd: pip install "{name}=={tested}.*"'
        )


def require_methods(owner: object, methods: Mapping[str, Sequence[str]], remedy: str) -> None:
    """Fails early, and clearly, if a later host has moved what is wrapped in it or called of it.

    Args:
        owner: an object, a class or a module of the host.
        methods: their names and first parameters. Those of an object are looked up in its class:
            what somebody has put around a method of the object need not name things.
        remedy: which version does.

    Raises:
        AttachError: one is missing, or takes other parameters.
    """
    kind = owner if isinstance(owner, type | ModuleType) else type(owner)
    for name, wanted in methods.items():
        method = getattr(kind, name, None)
        given = tuple(inspect.signature(method).parameters) if callable(method) else ()
        if isinstance(kind, type) and inspect.isfunction(method):
            given = given[1:]
        if not callable(method) or given[: len(wanted)] != tuple(wanted):
            found = f"{name}({', '.join(given)})" if callable(method) else f"no {name}"
            raise AttachError(
                f"{kind.__name__} has {found}; required: {name}({', '.join(wanted)}); {remedy}"
            )


def require_attributes(owner: object, names: Sequence[str], remedy: str) -> None:
    """Fails early if an object of the host lacks what is read of it, perhaps by a dotted name.

    Raises:
        AttachError: it does.
    """
    for name in names:
        found: object = owner
        for part in name.split("."):
            if not hasattr(found, part):
                kind = owner if isinstance(owner, type | ModuleType) else type(owner)
                raise AttachError(f"{kind.__name__} has no {name}; required: {name}; {remedy}")
            found = getattr(found, part)
