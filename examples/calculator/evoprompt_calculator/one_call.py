"""One call of the calculator, for language models: what it finds is the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from evoprompt_tiny.task import NumberTask

from evoprompt.agents import (
    Call,
    ChatTokenizer,
    Episode,
    Limits,
    Move,
    Protocol,
    Tokenizer,
    ToolCallProtocol,
    Tools,
)
from evoprompt.agents.tasks import Score
from evoprompt.hookspecs import hookimpl
from evoprompt.roles import Component
from evoprompt.types import Question
from evoprompt_calculator.calculator import calculate
from evoprompt_calculator.problems import make_splits
from evoprompt_calculator.task import CalculatorSettings

STEP_SHARES: Mapping[int, float] = {1: 0.5, 2: 0.5}
"""Share of the problems that have that many events."""


class CallIsAnswer(Protocol):
    """Tool calls of which the first one's result is the final answer.

    Args:
        calls: how a call is written.
    """

    def __init__(self, calls: Protocol) -> None:
        self._calls = calls
        self._calculator = Tools((calculate,), seconds=None)

    def require(self, tokenizer: Tokenizer) -> None:
        """Raises InputError if ``tokenizer`` breaks what a call is written with."""
        self._calls.require(tokenizer)

    def act(self, said: str) -> Move:
        """What an action does; without a call, what it says is the answer."""
        move = self._calls.act(said)
        if not move.calls:
            return move
        return replace(move, calls=(), answer=self._result(move.calls[0]))

    def frame(self, calls: Sequence[Call], said: str) -> Sequence[str]:
        """Around results, of which none is ever shown."""
        return self._calls.frame(calls, said)

    def _result(self, call: Call) -> str:
        if call.fault:
            return f"Error: {call.fault}"
        (result,) = self._calculator([call])
        assert isinstance(result, str)  # a calculator never breaks
        return result


class OneCall(NumberTask):
    """The calculator's word problems of one and two steps, solved in one expression.

    Args:
        settings: what was chosen.
    """

    Settings = CalculatorSettings
    seed_instructions = ("You are a helpful assistant. You can use the calculator.",)
    tools = (calculate,)
    limits = Limits(calls=1, turn_tokens=64, observation_tokens=0)
    settings: CalculatorSettings

    @cached_property
    def splits(self) -> dict[str, tuple[Question, ...]]:
        """The problems by split, no two of which have the same numbers and operators."""
        return make_splits(self.settings.world, self.settings.sizes, STEP_SHARES)

    def score(self, episode: Episode, question: Question) -> Score:
        """1 if the first call of the answer finds the right number; its result ends the episode.

        An answer without a call, as one in a code block, has to be the right number alone.
        """
        return super().score(episode, question)

    def protocol(self, tokenizer: ChatTokenizer) -> Protocol:
        """The model's own tool calls; the first ends the episode."""
        return CallIsAnswer(ToolCallProtocol(tokenizer))


@hookimpl
def evoprompt_components() -> Sequence[type[Component]]:
    """The task."""
    return [OneCall]
