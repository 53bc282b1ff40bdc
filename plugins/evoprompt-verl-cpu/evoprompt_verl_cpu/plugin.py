"""The host ``verl-cpu`` of ``evoprompt run``; importing this loads neither veRL nor torch."""

from __future__ import annotations

from collections.abc import Sequence

from evoprompt_verl.versions import check_versions

from evoprompt import BuildContext, Component, hookimpl
from evoprompt.agents.tasks import Host
from evoprompt_verl_cpu.settings import CpuSettings


class VerlCpu(Host):
    """veRL on CPUs, for small policies."""

    Settings = CpuSettings

    @classmethod
    def build(cls, settings: CpuSettings, context: BuildContext) -> Host:
        """Makes the host, for which a supported veRL must be installed."""
        check_versions()
        from evoprompt_verl_cpu.host import VerlOnCpu

        return VerlOnCpu(settings)


@hookimpl
def evoprompt_components() -> Sequence[type[Component]]:
    """The host ``verl-cpu``."""
    return [VerlCpu]
