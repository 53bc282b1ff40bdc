"""What a task wants of its hosts, written out."""

from __future__ import annotations

from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.settings import Settings, merge
from evoprompt.plugins import build, plugins


def with_host_defaults(config: RunConfig) -> RunConfig:
    """``config`` with the settings that its task prefers wherever it says nothing of a host.

    So the configuration that a run writes names what was in use. Nothing changes the second time.

    Raises:
        InputError: the task cannot be built.
        PluginError: the task is unknown.
    """
    plugins().block(config.block_plugins)
    defaults = build("task", config.task).host_defaults

    def filled(section: Settings) -> Settings:
        return merge(defaults.get(str(section["name"]), {}), section)

    arms = {
        name: arm.model_copy(update={"host": filled(arm.host)})
        if arm.host.get("name", config.host["name"]) != config.host["name"]
        else arm
        for name, arm in config.arms.items()
    }
    return config.model_copy(update={"host": filled(config.host), "arms": arms})
