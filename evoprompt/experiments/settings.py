"""Settings as mappings: merged, parsed from the command line, and compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import JsonValue

from evoprompt.hosting.section import Settings
from evoprompt.support import yamlfile
from evoprompt.support.errors import InputError

FROZEN = "frozen"
"""Name of the host that trains nothing."""


def merge(base: Mapping[str, JsonValue], over: Mapping[str, Any] | None) -> Settings:
    """Return ``base`` with the settings of ``over``, mapping by mapping.

    A component of another name replaces the former one with its settings.

    >>> merge({"proposer": {"name": "a", "size": 1}}, {"proposer": {"name": "a", "depth": 2}})
    {'proposer': {'name': 'a', 'size': 1, 'depth': 2}}
    >>> merge({"proposer": {"name": "a", "size": 1}}, {"proposer": {"name": "b"}})
    {'proposer': {'name': 'b'}}
    >>> merge({"proposer": "a"}, {"proposer": {"size": 1}})
    {'proposer': {'name': 'a', 'size': 1}}
    """
    merged = dict(base)
    for key, value in (over or {}).items():
        old = merged.get(key)
        if isinstance(old, str) and isinstance(value, Mapping):
            old = {"name": old}
        if (
            isinstance(old, Mapping)
            and isinstance(value, Mapping)
            and value.get("name", old.get("name")) == old.get("name")
        ):
            merged[key] = merge(old, value)
        else:
            merged[key] = value
    return merged


def nested(override: str) -> Settings:
    """Return the settings that a ``key.path=value`` of the command line describes.

    >>> nested("host.learning_rate=3e-4")
    {'host': {'learning_rate': 0.0003}}

    Raises:
        InputError: it is not of that form.
    """
    path, equals, text = override.partition("=")
    keys = [key.strip() for key in path.split(".")]
    if not equals or not all(keys):
        raise InputError(
            f"--set {override!r}; required: key.path=value, such as host.learning_rate=3e-4"
        )
    value = yamlfile.parse(text, f"--set {override}")
    for key in reversed(keys):
        value = {key: value}
    assert isinstance(value, dict)
    return value


def differences(
    before: Mapping[str, JsonValue], now: Mapping[str, JsonValue], path: str = ""
) -> Iterator[tuple[str, JsonValue, JsonValue]]:
    """Yield every setting that differs, with both values."""
    for key in [*before, *(key for key in now if key not in before)]:
        old, new = before.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from differences(old, new, f"{path}{key}.")
        elif old != new:
            yield f"{path}{key}", old, new
