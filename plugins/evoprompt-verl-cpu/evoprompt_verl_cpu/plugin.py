"""Host ``verl-cpu`` of ``evoprompt run``; importing this loads neither veRL nor torch."""

from __future__ import annotations

from collections.abc import Sequence

from evoprompt import Component, hookimpl
from evoprompt.plugins import named
from evoprompt_verl_cpu.host import VerlOnCpu


@hookimpl
def evoprompt_components() -> Sequence[tuple[str, type[Component]]]:
    """Return the host ``verl-cpu``."""
    return [named("verl-cpu", VerlOnCpu)]
