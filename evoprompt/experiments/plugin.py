"""The hosts and launchers that ship with evoprompt; what they need is imported when one is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evoprompt.experiments.hosts.frozen_settings import FrozenSettings
from evoprompt.experiments.hosts.trl import component as trl
from evoprompt.experiments.hosts.trl.settings import TrlSettings
from evoprompt.experiments.hosts.verl.settings import VerlHostSettings
from evoprompt.experiments.launchers.components import launchers
from evoprompt.experiments.settings import FROZEN
from evoprompt.hookspecs import hookimpl
from evoprompt.plugins.component import AnyComponent, BuildContext, Component

if TYPE_CHECKING:
    from evoprompt.agents.tasks import Host


def _frozen(settings: FrozenSettings, context: BuildContext) -> Host:
    from evoprompt.experiments.hosts.frozen import build

    return build(settings, context)


def _verl(settings: VerlHostSettings, context: BuildContext) -> Host:
    from evoprompt_verl.versions import check_versions

    check_versions()
    from evoprompt.experiments.hosts.verl.host import VerlHost

    return VerlHost(settings)


@hookimpl
def evoprompt_components() -> list[AnyComponent]:
    """Hosts and launchers."""
    about = "A model behind a server, which is not trained: its instruction is optimized"
    return [
        Component("host", FROZEN, _frozen, FrozenSettings, about),
        Component("host", "trl", trl.build, TrlSettings, "Any task in TRL's GRPOTrainer"),
        Component(
            "host",
            "verl",
            _verl,
            VerlHostSettings,
            "veRL's V1 trainer: Ray, FSDP, vLLM, agent loops",
        ),
        *launchers(),
    ]
