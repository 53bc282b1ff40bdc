"""What a trajectory shows of a tiny policy's attempt, whatever its tool is."""

from __future__ import annotations

import re
from collections.abc import Sequence

from evoprompt.types import Trajectory, Turn
from evoprompt_tiny.template import CALL, END


class Attempt:
    """An attempt at a question whose answer is a number.

    Args:
        trajectory: with at least one turn.
        closing: what stands after the argument of a call.

    Attributes:
        calls: turns whose call was answered.
        called: the last turn was a call, which nobody answered.
        wrong: the last turn was an answer, and the right number is not in it.
    """

    def __init__(self, trajectory: Trajectory, closing: str) -> None:
        *calls, last = trajectory.turns
        self.calls: Sequence[Turn] = calls
        self._last, self._closing = last.action.removesuffix(END), closing
        self.called = CALL in self._last
        named = set(trajectory.question.answers).intersection(re.findall(r"\d+", self._last))
        self.wrong = not self.called and not named

    @property
    def said(self) -> str:
        """All calls that were answered."""
        return "".join(turn.action for turn in self.calls)

    @property
    def of_form(self) -> dict[str, bool]:
        """What is wrong with its form, whatever it is about, by diagnosis."""
        closed = self._last.endswith(self._closing)
        return {
            "malformed call": self.called and not closed,
            "out of turns": self.called and closed,
            "wordy answer": not self.called and not self._last.strip().isdecimal(),
        }
