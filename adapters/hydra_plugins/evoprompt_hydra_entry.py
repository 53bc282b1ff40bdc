"""Makes ``+evoprompt=...`` known to hydra wherever veRL's configuration is composed.

Hydra imports every module of the namespace package ``hydra_plugins``. Other hydra applications in
the same environment pay nothing: where no veRL is in sight, nothing is imported.
"""

from __future__ import annotations

import sys

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin


class EvopromptSearchPath(SearchPathPlugin):
    """Register the config group ``evoprompt`` beside veRL's own."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Add the group to hydra's store of configurations, which it always reads."""
        paths = [element.path for element in search_path.get_path()]
        if "verl" in sys.modules or any("verl" in path for path in paths):
            from evoprompt_verl.hydra_entry import register

            register()
