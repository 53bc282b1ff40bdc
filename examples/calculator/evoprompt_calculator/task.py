"""Tasks of evoprompt: problems, the tool, scoring and the shipped policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from evoprompt_tiny.hosts import host_defaults
from evoprompt_tiny.instructions import compose
from evoprompt_tiny.task import NumberTask, SplitSizes
from pydantic import Field

from evoprompt.agents import (
    ChatTokenizer,
    Episode,
    Limits,
    Move,
    Protocol,
    TextTokenizer,
    Tokenizer,
    ToolCall,
    ToolCallProtocol,
    Tools,
)
from evoprompt.agents.tasks import REWARD, Score
from evoprompt.components import Component
from evoprompt.hookspecs import hookimpl
from evoprompt.types import Question, Trajectory
from evoprompt_calculator.bank import BANK, ONE_CALL, SEED_IDEAS, diagnose, diagnose_call
from evoprompt_calculator.calculator import calculate
from evoprompt_calculator.demonstrations import MOST_CALLS
from evoprompt_calculator.problems import make_splits

WEIGHTS = Path(__file__).parent / "weights"
"""The pretrained policy that comes with the package; see ``pretrain.py``."""


class CalculatorSettings(SplitSizes):
    """Settings of the task, besides the number of its problems.

    Attributes:
        world: seed of the problems.
    """

    world: int = Field(default=7, ge=0)


class Calculator(NumberTask):
    """Arithmetic word problems of several steps, with a calculator.

    They have one to three steps; the answer has to be the number alone.

    Args:
        settings: of the task.
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
        """Return the problems by split; no two have the same numbers and operators."""
        return make_splits(self.settings.world, self.settings.sizes)

    def diagnose(self, trajectory: Trajectory) -> Sequence[str]:
        """Return the diagnoses of a failed trajectory; see ``bank.py``."""
        return diagnose(trajectory)


class TwoStages(Calculator):
    """Calculator with half of the reward for a call that finds the number.

    Args:
        settings: of the task.
    """

    main_metric = REWARD

    def score(self, episode: Episode, question: Question) -> Score:
        """1 for the right number and nothing else, and half for a call alone that finds it."""
        score = super().score(episode, question)
        results = "\n".join(turn.observation or "" for turn in episode.turns).splitlines()
        is_half_right = not score.reward and question.answers[0] in results
        return replace(score, reward=0.5) if is_half_right else score


class CallIsAnswer(Protocol):
    """Protocol of tool calls in which the result of the first call is the final answer.

    Args:
        calls: protocol of a call.
    """

    def __init__(self, calls: Protocol) -> None:
        self._calls = calls
        self._calculator = Tools((calculate,), seconds=None)

    def require(self, tokenizer: Tokenizer) -> None:
        """Raise InputError if ``tokenizer`` breaks the text of a call."""
        self._calls.require(tokenizer)

    def act(self, text: str) -> Move:
        """Return the move in an action; without a call, its text is the answer."""
        move = self._calls.act(text)
        if not move.calls:
            return move
        call = move.calls[0]
        result = f"Error: {call.fault}" if call.fault else str(self._calculator([call])[0])
        return replace(move, calls=(), answer=result)

    def frame(self, calls: Sequence[ToolCall], text: str) -> Sequence[str]:
        """Return the text around results, which the policy never sees."""
        return self._calls.frame(calls, text)


class OneCall(NumberTask):
    """Word problems of one and two steps for a language model, each solved by one call.

    Args:
        settings: of the task.
    """

    Settings = CalculatorSettings
    seed_instructions = ("You are a helpful assistant. You can use the calculator.",)
    tools = (calculate,)
    limits = Limits(calls=1, turn_tokens=64, observation_tokens=0)
    bank = ONE_CALL
    settings: CalculatorSettings

    @cached_property
    def splits(self) -> dict[str, tuple[Question, ...]]:
        """Return the problems by split, half of one step and half of two; no two are equal."""
        return make_splits(self.settings.world, self.settings.sizes, {1: 0.5, 2: 0.5})

    def score(self, episode: Episode, question: Question) -> Score:
        """1 if the first call of the answer finds the right number; its result ends the episode.

        An answer without a call, as one in a code block, has to be the right number alone.
        """
        return super().score(episode, question)

    def diagnose(self, trajectory: Trajectory) -> Sequence[str]:
        """Return the diagnosis of a failed trajectory; see ``bank.py``."""
        read = ToolCallProtocol(TextTokenizer()).act
        calls = [call for turn in trajectory.turns for call in read(turn.action).calls]
        return [diagnose_call(calls[0] if calls else None, trajectory.question.text)]

    def protocol(self, tokenizer: ChatTokenizer) -> Protocol:
        """Return the protocol of the model's own tool calls; the first call ends the episode."""
        return CallIsAnswer(ToolCallProtocol(tokenizer))


@hookimpl
def evoprompt_components() -> Sequence[type[Component]]:
    """Return the tasks."""
    return [Calculator, OneCall, TwoStages]
