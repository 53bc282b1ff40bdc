"""The task as evoprompt sees it: problems, the tool, scoring and the policy that comes along."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from evoprompt_tiny.hosts import host_defaults
from evoprompt_tiny.instructions import compose
from evoprompt_tiny.task import NumberTask, SplitSizes
from pydantic import Field

from evoprompt.agents import Limits
from evoprompt.hookspecs import hookimpl
from evoprompt.roles import Component
from evoprompt.types import Question, Trajectory
from evoprompt_calculator.bank import BANK, SEED_IDEAS, diagnose
from evoprompt_calculator.calculator import calculate
from evoprompt_calculator.demonstrations import MOST_CALLS
from evoprompt_calculator.problems import make_splits

WEIGHTS = Path(__file__).parent / "weights"
"""The pretrained policy that comes with the package; see ``pretrain.py``."""


class CalculatorSettings(SplitSizes):
    """What can be chosen about the task, besides the number of its problems.

    Attributes:
        world: seed of the problems.
    """

    world: int = Field(default=7, ge=0)


class Calculator(NumberTask):
    """Arithmetic word problems of several steps, with a calculator.

    They have one to three steps; the answer has to be the number alone.

    Args:
        settings: what was chosen.
    """

    Settings = CalculatorSettings
    seed_instructions = (compose(BANK, SEED_IDEAS),)
    tools = (calculate,)
    limits = Limits(calls=MOST_CALLS, turn_tokens=32, observation_tokens=24)
    bank = BANK
    host_defaults = host_defaults(WEIGHTS, limits)
    settings: CalculatorSettings

    @cached_property
    def splits(self) -> dict[str, tuple[Question, ...]]:
        """The problems by split, no two of which have the same numbers and operators."""
        return make_splits(self.settings.world, self.settings.sizes)

    def diagnose(self, trajectory: Trajectory) -> Sequence[str]:
        """What went wrong in a failed trajectory; see ``bank.py``."""
        return diagnose(trajectory)


@hookimpl
def evoprompt_components() -> Sequence[type[Component]]:
    """The task."""
    return [Calculator]
