"""What evoprompt finds when this distribution is installed."""

from __future__ import annotations

from evoprompt import BuildContext, Component, hookimpl
from evoprompt.agents.tasks import Task
from evoprompt_gym.settings import GymSettings


def build(settings: GymSettings, context: BuildContext) -> Task:
    """The task; the library is imported only now, which takes seconds."""
    from evoprompt_gym.task import ReasoningGym

    return ReasoningGym(settings)


@hookimpl
def evoprompt_components() -> list[Component[GymSettings]]:
    """The task ``reasoning-gym``."""
    return [
        Component(
            "task",
            "reasoning-gym",
            build,
            GymSettings,
            "Any data set of reasoning-gym by name, scored by its own scorer",
        )
    ]
