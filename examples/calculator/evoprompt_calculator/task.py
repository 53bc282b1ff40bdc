"""The task as evoprompt sees it: problems, the tool, scoring and the policy that comes along."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from evoprompt_tiny.hosts import host_defaults
from pydantic import BaseModel, ConfigDict, Field

from evoprompt.agents import Episode, Limits, Sampler
from evoprompt.errors import InputError
from evoprompt.hookspecs import hookimpl
from evoprompt.plugins.component import BuildContext, Component
from evoprompt.tasks import Headline, Score, Task
from evoprompt.types import Question, Trajectory
from evoprompt_calculator.bank import BANK, SEED_IDEAS, compose, diagnose
from evoprompt_calculator.calculator import calculate
from evoprompt_calculator.demonstrations import MOST_CALLS
from evoprompt_calculator.problems import STRATA, make_splits

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

WEIGHTS = Path(__file__).parent / "weights"
"""The pretrained policy that comes with the package; see ``pretrain.py``."""


class CalculatorSettings(BaseModel):
    """What can be chosen about the task.

    Attributes:
        world: seed of the problems.
        train: training problems.
        validation: validation problems, for curves and for choosing settings.
        test: test problems, for results alone.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    world: int = Field(default=7, ge=0)
    train: int = Field(default=600, ge=1)
    validation: int = Field(default=200, ge=1)
    test: int = Field(default=300, ge=1)


class Calculator(Task):
    """Arithmetic word problems of one to three steps; the answer has to be the number alone.

    Args:
        settings: what was chosen.
    """

    headline = Headline("accuracy", "share solved")
    seed_instructions = (compose(SEED_IDEAS),)
    tools = (calculate,)
    limits = Limits(calls=MOST_CALLS, turn_tokens=32, observation_tokens=24)
    bank = BANK
    host_defaults = host_defaults(WEIGHTS, limits)

    def __init__(self, settings: CalculatorSettings | None = None) -> None:
        self.settings = settings or CalculatorSettings()

    @cached_property
    def splits(self) -> dict[str, tuple[Question, ...]]:
        """The problems by split, no two of which have the same numbers and operators."""
        chosen = self.settings
        sizes = {"test": chosen.test, "validation": chosen.validation, "train": chosen.train}
        return make_splits(chosen.world, sizes)

    def questions(self, split: str) -> tuple[Question, ...]:
        """The problems of ``split``.

        Raises:
            InputError: there is no such split.
        """
        if split not in self.splits:
            raise InputError(
                f"split is {split!r}; required: one of {', '.join(self.splits)}; choose one"
            )
        return self.splits[split]

    def score(self, episode: Episode, question: Question) -> Score:
        """1 for the right number and nothing else; the strata are the numbers of steps."""
        (expected,) = question.answers
        solved = float(episode.answer == expected)
        feedback = f"expected {expected}, got {episode.answer or 'no answer: ' + episode.end}"
        stratum = STRATA[int(str(question.row["steps"]))]
        return Score(solved, "" if solved else feedback, {"accuracy": solved}, stratum)

    def sampler(
        self, model: object, tokenizer: PreTrainedTokenizerFast, temperature: float
    ) -> Sampler | None:
        """One that keeps what the policy has read, for the policy that comes along."""
        from evoprompt_tiny.sampler import sampler_of  # torch is slow to load

        return sampler_of(model, tokenizer, self.limits, temperature)

    def diagnose(self, trajectory: Trajectory) -> Sequence[str]:
        """What went wrong in a failed trajectory; see ``bank.py``."""
        return diagnose(trajectory)


def _build(settings: CalculatorSettings, context: BuildContext) -> Calculator:
    del context
    return Calculator(settings)


@hookimpl
def evoprompt_components() -> Sequence[Component[CalculatorSettings]]:
    """The task."""
    return [
        Component(
            role="task",
            name="calculator",
            build=_build,
            settings=CalculatorSettings,
            description="Arithmetic word problems of several steps, with a calculator.",
        )
    ]
