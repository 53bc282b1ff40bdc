"""Properties of a tiny policy's attempt in a trajectory, for any tool."""

from __future__ import annotations

import re
from collections.abc import Sequence

from evoprompt.types import Trajectory, Turn
from evoprompt_tiny.template import CALL, END


class Attempt:
    """Attempt at a question that has a number as its answer.

    Args:
        trajectory: with at least one turn.
        closing: text after the argument of a call.

    Attributes:
        calls: turns with a call that got a result.
        called: whether the last turn was a call, without a result.
        wrong: whether the last turn was an answer without the right number.
    """

    def __init__(self, trajectory: Trajectory, closing: str) -> None:
        *calls, last = trajectory.turns
        self.calls: Sequence[Turn] = calls
        self._last, self._closing = last.action.removesuffix(END), closing
        self.called = CALL in self._last
        named = set(trajectory.question.answers).intersection(re.findall(r"\d+", self._last))
        self.wrong = not self.called and not named

    @property
    def call_text(self) -> str:
        """Return the text of all calls with a result."""
        return "".join(turn.action for turn in self.calls)

    @property
    def form_diagnoses(self) -> dict[str, bool]:
        """Return the diagnoses of its form, for any world."""
        closed = self._last.endswith(self._closing)
        return {
            "malformed call": self.called and not closed,
            "out of turns": self.called and closed,
            "wordy answer": not self.called and not self._last.strip().isdecimal(),
        }
