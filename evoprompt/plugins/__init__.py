"""Finds installed plugins, and builds the components they bring."""

from evoprompt.plugins.registry import (
    BLOCK_VARIABLE,
    Plugins,
    Problem,
    Registered,
    build,
    components,
    plugin_manager,
    plugins,
)
from evoprompt.plugins.sources import PluginSource, installed_sources, origin_of

__all__ = [
    "BLOCK_VARIABLE",
    "PluginSource",
    "Plugins",
    "Problem",
    "Registered",
    "build",
    "components",
    "installed_sources",
    "origin_of",
    "plugin_manager",
    "plugins",
]
