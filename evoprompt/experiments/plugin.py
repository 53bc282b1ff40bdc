"""The hosts and launchers that ship with evoprompt; what they need is imported when one is used."""

from __future__ import annotations

from collections.abc import Sequence

from evoprompt.agents.tasks import Host
from evoprompt.experiments.hosts.frozen import FrozenHost
from evoprompt.experiments.hosts.trl.component import TrlHost
from evoprompt.experiments.hosts.verl.settings import VerlHostSettings
from evoprompt.experiments.launchers.local import LocalLauncher
from evoprompt.experiments.launchers.on_ray import Ray
from evoprompt.experiments.launchers.on_slurm import Slurm
from evoprompt.experiments.settings import FROZEN
from evoprompt.hookspecs import hookimpl
from evoprompt.plugins import named
from evoprompt.roles import BuildContext, Component


class Verl(Host):
    """veRL's V1 trainer: Ray, FSDP, vLLM, agent loops."""

    Settings = VerlHostSettings

    @classmethod
    def build(cls, settings: VerlHostSettings, context: BuildContext) -> Host:
        """Makes the host, for which a supported veRL must be installed."""
        from evoprompt_verl.versions import check_versions

        check_versions()
        from evoprompt.experiments.hosts.verl.host import VerlHost

        return VerlHost(settings)


@hookimpl
def evoprompt_components() -> Sequence[type[Component] | tuple[str, type[Component]]]:
    """Hosts and launchers."""
    return [
        named(FROZEN, FrozenHost),
        named("trl", TrlHost),
        Verl,
        named("local", LocalLauncher),
        Ray,
        Slurm,
    ]
