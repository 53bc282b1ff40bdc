"""Where plugins come from: the entry points of installed distributions."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.utils import canonicalize_name

from evoprompt import hookspecs


@dataclass(frozen=True, slots=True)
class PluginSource:
    """Where a plugin comes from: one entry point of one distribution.

    Attributes:
        name: of the entry point, by which the plugin is known and blocked.
        distribution: that declares it.
        version: of the distribution.
        load: returns the module or object that holds the hook implementations.
    """

    name: str
    distribution: str
    version: str
    load: Callable[[], object]

    def answers_to(self, names: Collection[str]) -> bool:
        """Whether the plugin or its distribution is among ``names``, however they are spelt."""
        spelt = {canonicalize_name(name) for name in names}
        return not spelt.isdisjoint(map(canonicalize_name, (self.name, self.distribution)))

    def __str__(self) -> str:
        return f"plugin {self.name!r} of {self.distribution} {self.version}"


def installed_sources() -> list[PluginSource]:
    """One source an entry point of the group in this environment, evoprompt's own first."""
    sources = [
        PluginSource(
            entry_point.name,
            entry_point.dist.name if entry_point.dist else "unknown",
            entry_point.dist.version if entry_point.dist else "unknown",
            entry_point.load,
        )
        for entry_point in metadata.entry_points(group=hookspecs.GROUP)
    ]
    return sorted(
        sources,
        key=lambda source: (source.distribution != "evoprompt", source.distribution, source.name),
    )


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()  # reads every file list there is


def origin_of(component: object) -> str:
    """The distribution and version that the class of ``component`` comes from, as far as known."""
    module = type(component).__module__
    package = module.partition(".")[0]
    for entry_point in metadata.entry_points(group=hookspecs.GROUP):
        if entry_point.dist and entry_point.module.partition(".")[0] == package:
            return f"{entry_point.dist.name} {entry_point.dist.version}"
    file = getattr(sys.modules.get(module), "__file__", None)
    for name in _distributions().get(package, ()):
        distribution = metadata.distribution(name)
        if file and Path(file).is_relative_to(str(distribution.locate_file(""))):
            return f"{distribution.name} {distribution.version}"
    return f"module {module}"
