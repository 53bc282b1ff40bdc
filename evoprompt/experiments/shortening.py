"""Shortening of a text by a scorer: it leaves out one sentence or clause after another."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Generic, TypeVar

from evoprompt.support.errors import InputError
from evoprompt.support.leads import TRIAL_ODDS, Lead
from evoprompt.support.text import tags

ExampleT = TypeVar("ExampleT")
Score = Callable[[str, Sequence[ExampleT]], Sequence[float | None]]
"""Rewards of examples under a text, in their order; None of one that failed."""

DELTA = 0.02
"""Most that a shorter text may lose, as a share of the range of rewards."""

_BLOCK = 32  # examples between two checks
_PIECES = (
    re.compile(r"\S.*?(?:(?<=[.!?])\s+|\s*\n\s*|\s*$)", re.DOTALL),  # sentences, lines
    re.compile(r"\S.*?(?:(?<=[.!?])\s+|(?<=[,;:])\s+|\s*\n\s*|\s*$)", re.DOTALL),  # clauses
)
_END = re.compile(r"\s*[,;:]?\s*([.!?]?)\s*\Z")


@dataclass(frozen=True, slots=True)
class Simplified:
    """Shorter text of equal value.

    Attributes:
        text: the text.
        left_out: the pieces that were left out, in that order.
        lead: of the text over the original one, on the examples of both.
        rollouts: number of rewards that were requested.
    """

    text: str
    left_out: tuple[str, ...]
    lead: Lead
    rollouts: int


class _Rewards(Generic[ExampleT]):
    """Rewards of texts, each requested once.

    Args:
        score: the scorer.
        examples: in the order of the requests.
    """

    def __init__(self, score: Score[ExampleT], examples: Sequence[ExampleT]) -> None:
        self.score, self.examples = score, examples
        self.by_text: dict[str, list[float | None]] = {}

    def of(self, text: str, count: int) -> list[float | None]:
        """Return the rewards of the first ``count`` examples."""
        rewards = self.by_text.setdefault(text, [])
        if len(rewards) < count:
            new = list(self.score(text, self.examples[len(rewards) : count]))
            wrong = [reward for reward in new if reward is not None and not math.isfinite(reward)]
            if wrong or len(new) != count - len(rewards):
                raise InputError(
                    f"the scorer returned {wrong[0] if wrong else len(new)} for "
                    f"{count - len(rewards)} examples; required: a finite reward for each, or None"
                )
            rewards += new
        return rewards[:count]

    @property
    def observed(self) -> list[float]:
        """Return all rewards so far."""
        return [
            reward for rewards in self.by_text.values() for reward in rewards if reward is not None
        ]

    def lead(self, text: str, other: str, count: int) -> Lead:
        """Return the lead of ``text`` over ``other``.

        The standard error is computed as if one more example had differed by the whole range:
        without it, a few equal rewards would prove that all rewards are equal.
        """
        pairs = zip(self.of(text, count), self.of(other, count), strict=True)
        gains = [mine - theirs for mine, theirs in pairs if mine is not None and theirs is not None]
        if not gains:
            return Lead(0.0, math.inf)
        mean, spread = fmean(gains), max(self.observed) - min(self.observed)
        squares = math.fsum((gain - mean) ** 2 for gain in gains) + spread**2
        return Lead(mean, math.sqrt(squares) / len(gains) if spread else math.inf)


def simplify(
    text: str,
    examples: Sequence[ExampleT],
    score: Score[ExampleT],
    *,
    delta: float = DELTA,
    required: Sequence[str] | None = None,
) -> Simplified:
    """Return the shortest text that loses no more than ``delta``.

    The last sentence is left out first, and then the sentences before it; then clauses. Each time
    the shorter text is scored on the same examples as the best text so far, some at a time, until
    the odds are 5 to 1 that it loses less than ``delta`` or 2 to 1 that it loses something. After
    the last example 2 to 1 are enough, since the shorter of equal texts is preferred; if the odds
    are lower, the sentence or clause stays.

    Args:
        text: to be shortened; the shortened text is never empty.
        examples: to compare texts on; 150 detect a loss of .02 if rewards differ little.
        score: ``score(text, examples)`` returns their rewards, higher is better.
        delta: most that may be lost, as a share of the range of rewards that were observed.
        required: strings that keep their sentences in the text; by default the tags in ``text``.

    Raises:
        InputError: an argument cannot be used, or all rewards are equal, or there are none.
    """
    if not text.strip() or not examples or not 0 < delta < 1:
        raise InputError(
            f"text has {len(text.strip())} characters, there are {len(examples)} examples, and "
            f"delta is {delta}; required: a text, an example and a number between 0 and 1"
        )
    if required is None:
        required = [f"<{'/' * closes}{name}>" for name, closes in tags(text)]
    rewards = _Rewards(score, examples)
    best = shortened = text
    left_out: list[str] = []
    for pieces in _PIECES:
        index = len(pieces.findall(shortened)) - 1
        while index >= 0:
            cut = _without(shortened, pieces, index)
            index -= 1
            if cut is None or any(
                required_text in shortened and required_text not in cut[0]
                for required_text in required
            ):
                continue
            if _loses_little(rewards, cut[0], best, delta):
                shortened = cut[0]
                left_out.append(cut[1])
                if rewards.lead(shortened, best, len(rewards.by_text[shortened])).value > 0:
                    best = shortened
    if left_out or rewards.by_text:
        _require_differences(rewards.observed)
    num_common = min(len(rewards.by_text.get(scored_text, ())) for scored_text in (shortened, text))
    lead = rewards.lead(shortened, text, num_common) if num_common else Lead(0.0, math.inf)
    return Simplified(shortened, tuple(left_out), lead, sum(map(len, rewards.by_text.values())))


def _loses_little(rewards: _Rewards[ExampleT], shorter: str, best: str, delta: float) -> bool:
    """Return whether ``shorter`` loses less than ``delta`` of the range, by the examples."""
    odds = 0.0
    whole = len(rewards.examples)
    for count in (*range(_BLOCK, whole, _BLOCK), whole):
        lead = rewards.lead(shorter, best, count)
        allowed = delta * (max(rewards.observed, default=0.0) - min(rewards.observed, default=0.0))
        if not allowed:
            continue
        spared = Lead(lead.value + allowed, lead.stderr)
        if decided := spared.verdict(allowed, useful=allowed):
            return decided == "better"
        odds = spared.odds(allowed)
    return odds >= TRIAL_ODDS


def _without(text: str, pieces: re.Pattern[str], index: int) -> tuple[str, str] | None:
    """Return the text without a piece, and that piece; None if the text would be empty."""
    matches = list(pieces.finditer(text))
    before, piece, after = text[: matches[index].start()], matches[index].group(), ""
    after = text[matches[index].end() :]
    end = _END.search(before)
    mark = _END.search(piece)
    if end and mark and before.strip() and not end.group(1):  # within a sentence, or a line
        if mark.group(1):  # its last clause: what is before ends as it did
            before = before[: end.start()] + mark.group(1) + piece[len(piece.rstrip()) :]
    elif piece.rstrip()[-1:] in ",;:" and piece[:1].isupper():
        after = after[:1].upper() + after[1:]
    shorter = (before + after).strip()
    return (shorter, piece.strip()) if shorter else None


def _require_differences(observed: Sequence[float]) -> None:
    if len(set(observed)) < 2:
        raise InputError(
            f"{len(observed)} rewards of all texts are {'equal' if observed else 'missing'}; "
            "required: examples on which texts differ; give other examples, neither too hard nor "
            "too easy"
        )
