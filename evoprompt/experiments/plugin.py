"""Hosts, launchers and a task that ship with evoprompt; their requirements are imported late."""

from __future__ import annotations

from collections.abc import Sequence

from evoprompt.components import Component
from evoprompt.experiments.hosts.frozen import FrozenHost
from evoprompt.experiments.hosts.trl.component import TrlHost
from evoprompt.experiments.hosts.verl.host import VerlHost
from evoprompt.experiments.launchers.local import LocalLauncher
from evoprompt.experiments.launchers.on_ray import Ray
from evoprompt.experiments.launchers.on_slurm import Slurm
from evoprompt.experiments.questions import QUESTIONS, Questions
from evoprompt.experiments.settings import FROZEN
from evoprompt.hookspecs import hookimpl
from evoprompt.plugins import named


@hookimpl
def evoprompt_components() -> Sequence[type[Component] | tuple[str, type[Component]]]:
    """Return the hosts, the launchers, and the task that is a file of questions."""
    return [
        named(FROZEN, FrozenHost),
        named("trl", TrlHost),
        named("verl", VerlHost),
        named("local", LocalLauncher),
        named(QUESTIONS, Questions),
        Ray,
        Slurm,
    ]
