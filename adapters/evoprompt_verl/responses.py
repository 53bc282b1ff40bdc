"""What the policy wrote and what the environment answered, taken apart by veRL's response mask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from evoprompt.types import Turn

Decode = Callable[[list[int]], str]


@dataclass(frozen=True, slots=True)
class Response:
    """The tokens that followed a prompt.

    Attributes:
        ids: token ids, without padding.
        mask: 1 where the policy emitted the token, 0 where the environment did.
    """

    ids: Sequence[int]
    mask: Sequence[int]

    def metrics(self) -> dict[str, float]:
        """``response_tokens``, the policy's own, and ``tool_calls``, the observations it got."""
        observations = sum(1 for emitted, _ in groupby(self.mask) if not emitted)
        return {"response_tokens": float(sum(self.mask)), "tool_calls": float(observations)}

    def turns(self, decode: Decode) -> tuple[Turn, ...]:
        """The actions and the observations that followed them, as text."""
        turns: list[Turn] = []
        pairs = zip(self.ids, self.mask, strict=True)
        for emitted, span in groupby(pairs, key=lambda pair: pair[1]):
            text = decode([token for token, _ in span])
            if emitted:
                turns.append(Turn(text))
            elif turns:
                turns[-1] = Turn(turns[-1].action, text)
            else:
                turns.append(Turn("", text))
        return tuple(turns)
