"""Plugin of this distribution."""

from __future__ import annotations

from collections.abc import Sequence

from evoprompt import BuildContext, Component, Task, hookimpl
from evoprompt_gym.settings import GymSettings


class ReasoningGym(Task):
    """Any data set of reasoning-gym by name, scored by its own scorer."""

    Settings = GymSettings

    @classmethod
    def build(cls, settings: GymSettings, context: BuildContext) -> Task:
        """Return the task; the library is imported only now, which takes seconds."""
        from evoprompt_gym.task import ReasoningGymTask

        return ReasoningGymTask(settings)


@hookimpl
def evoprompt_components() -> Sequence[type[Component]]:
    """Return the task ``reasoning-gym``."""
    return [ReasoningGym]
