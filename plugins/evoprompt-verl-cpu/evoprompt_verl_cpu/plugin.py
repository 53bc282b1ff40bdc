"""The host ``verl-cpu`` of ``evoprompt run``; importing this loads neither veRL nor torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evoprompt_verl.versions import check_versions

from evoprompt.hookspecs import hookimpl
from evoprompt.plugins.component import AnyComponent, BuildContext, Component
from evoprompt_verl_cpu.settings import CpuSettings

if TYPE_CHECKING:
    from evoprompt.agents.tasks import Host


def _host(settings: CpuSettings, context: BuildContext) -> Host:
    check_versions()
    from evoprompt_verl_cpu.host import VerlOnCpu

    return VerlOnCpu(settings)


@hookimpl
def evoprompt_components() -> list[AnyComponent]:
    """The host ``verl-cpu``."""
    about = "veRL on CPUs, for small policies"
    return [Component("host", "verl-cpu", _host, CpuSettings, about)]
