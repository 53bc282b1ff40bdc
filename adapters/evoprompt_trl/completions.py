"""What the policy wrote and what the environment answered, taken apart by TRL's token mask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from evoprompt.types import Turn

Decode = Callable[[list[list[int]]], list[str]]


@dataclass(frozen=True, slots=True)
class Completion:
    """The tokens that followed one prompt.

    Attributes:
        ids: token ids, without padding.
        by_policy: for each token whether the policy emitted it; None when the host does not say,
            which means all of them.
    """

    ids: Sequence[int]
    by_policy: Sequence[bool] | None = None

    def metrics(self) -> dict[str, float]:
        """``response_tokens``, the policy's own; ``tool_calls``, if observations are marked."""
        if self.by_policy is None:
            return {"response_tokens": float(len(self.ids))}
        observations = sum(not policy for policy, _ in groupby(self.by_policy))
        return {
            "response_tokens": float(sum(self.by_policy)),
            "tool_calls": float(observations),
        }

    def turns(self, decode: Decode) -> tuple[Turn, ...]:
        """The actions and the observations between them, as text."""
        if self.by_policy is None:
            return (Turn(decode([list(self.ids)])[0]),)
        spans = [
            (policy, [token for token, _ in span])
            for policy, span in groupby(
                zip(self.ids, self.by_policy, strict=True), key=lambda pair: pair[1]
            )
        ]
        texts = decode([ids for _, ids in spans])
        turns: list[Turn] = []
        for (policy, _), text in zip(spans, texts, strict=True):
            if policy:
                turns.append(Turn(text))
            elif turns:
                turns[-1] = Turn(turns[-1].action, text)
            else:
                turns.append(Turn("", text))
        return tuple(turns)
