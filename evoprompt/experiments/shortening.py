"""Leaves out of a text what it does not need: one sentence or clause after another, by a scorer."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Generic, TypeVar

from evoprompt.support.errors import InputError
from evoprompt.support.leads import DROP, Lead
from evoprompt.support.text import tags

ExampleT = TypeVar("ExampleT")
Score = Callable[[str, Sequence[ExampleT]], Sequence[float | None]]
"""Rewards of examples under a text, in their order; None of one that failed."""

DELTA = 0.02
"""Most that a shorter text may lose, as a share of the range of rewards."""

_BLOCK = 32  # examples between two looks
_PIECES = (
    re.compile(r"\S.*?(?:(?<=[.!?])\s+|\s*\n\s*|\s*$)", re.DOTALL),  # sentences, lines
    re.compile(r"\S.*?(?:(?<=[.!?])\s+|(?<=[,;:])\s+|\s*\n\s*|\s*$)", re.DOTALL),  # clauses
)
_END = re.compile(r"\s*[,;:]?\s*([.!?]?)\s*\Z")


@dataclass(frozen=True, slots=True)
class Simplified:
    """A shorter text of equal value.

    Attributes:
        text: the text.
        left_out: what was left out, in the order in which it was.
        lead: of the text over the given one, on the examples that both answered.
        rollouts: rewards that were asked for.
    """

    text: str
    left_out: tuple[str, ...]
    lead: Lead
    rollouts: int


class _Rewards(Generic[ExampleT]):
    """Rewards of texts, each asked for once.

    Args:
        score: asks.
        examples: in the order in which they are asked.
    """

    def __init__(self, score: Score[ExampleT], examples: Sequence[ExampleT]) -> None:
        self.score, self.examples = score, examples
        self.known: dict[str, list[float | None]] = {}

    def of(self, text: str, count: int) -> list[float | None]:
        """Of the first ``count`` examples."""
        known = self.known.setdefault(text, [])
        if len(known) < count:
            new = list(self.score(text, self.examples[len(known) : count]))
            wrong = [one for one in new if one is not None and not math.isfinite(one)]
            if wrong or len(new) != count - len(known):
                raise InputError(
                    f"the scorer returned {wrong[0] if wrong else len(new)} for "
                    f"{count - len(known)} examples; required: a finite reward for each, or None"
                )
            known += new
        return known[:count]

    @property
    def seen(self) -> list[float]:
        """All rewards so far."""
        return [one for known in self.known.values() for one in known if one is not None]

    def lead(self, one: str, other: str, count: int) -> Lead:
        """Of a text over another.

        As if one more example had differed by the whole range: without it, a few that answered
        alike would prove that all do.
        """
        pairs = zip(self.of(one, count), self.of(other, count), strict=True)
        gains = [mine - theirs for mine, theirs in pairs if mine is not None and theirs is not None]
        if not gains:
            return Lead(0.0, math.inf)
        mean, spread = fmean(gains), max(self.seen) - min(self.seen)
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
    """The shortest text found that loses no more than ``delta``.

    The last sentence is left out first, and then the others; then clauses. Each time the shorter
    text answers the examples beside the best one so far, some at a time, until the odds are 5 to 1
    that it loses less than ``delta`` or 2 to 1 that it loses something. After the last example 2 to
    1 are enough, since the shorter of equals is wanted; where they do not tell that, it stays.

    Args:
        text: to be shortened; what is left is never empty.
        examples: that texts are compared on; 150 tell a loss of .02 where answers hardly differ.
        score: ``score(text, examples)`` returns their rewards, higher is better.
        delta: most that may be lost, as a share of the range of rewards that were seen.
        required: strings whose sentences are never left out; by default the tags in ``text``.

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
    best = kept = text
    left_out: list[str] = []
    for pieces in _PIECES:
        place = len(pieces.findall(kept)) - 1
        while place >= 0:
            found = _without(kept, pieces, place)
            place -= 1
            if found is None or any(one in kept and one not in found[0] for one in required):
                continue
            if _may_go(rewards, found[0], best, delta):
                kept = found[0]
                left_out.append(found[1])
                if rewards.lead(kept, best, len(rewards.known[kept])).value > 0:
                    best = kept
    if left_out or rewards.known:
        _require_differences(rewards.seen)
    both = min(len(rewards.known.get(one, ())) for one in (kept, text))
    lead = rewards.lead(kept, text, both) if both else Lead(0.0, math.inf)
    return Simplified(kept, tuple(left_out), lead, sum(map(len, rewards.known.values())))


def _may_go(rewards: _Rewards[ExampleT], shorter: str, best: str, delta: float) -> bool:
    """Whether ``shorter`` loses less than ``delta`` of the range, as far as the examples tell."""
    odds = 0.0
    for count in _looks(len(rewards.examples)):
        lead = rewards.lead(shorter, best, count)
        allowed = delta * (max(rewards.seen, default=0.0) - min(rewards.seen, default=0.0))
        if not allowed:
            continue
        spared = Lead(lead.value + allowed, lead.stderr)
        if decided := spared.verdict(allowed, useful=allowed):
            return decided == "better"
        odds = spared.odds(allowed)
    return odds >= DROP


def _looks(count: int) -> Iterator[int]:
    yield from (*range(_BLOCK, count, _BLOCK), count)


def _without(text: str, pieces: re.Pattern[str], place: int) -> tuple[str, str] | None:
    """The text without a piece, and that piece; None where nothing else would be left."""
    found = list(pieces.finditer(text))
    before, piece, after = text[: found[place].start()], found[place].group(), ""
    after = text[found[place].end() :]
    end = _END.search(before)
    mark = _END.search(piece)
    if end and mark and before.strip() and not end.group(1):  # within a sentence, or a line
        if mark.group(1):  # its last clause: what is before ends as it did
            before = before[: end.start()] + mark.group(1) + piece[len(piece.rstrip()) :]
    elif piece.rstrip()[-1:] in ",;:" and piece[:1].isupper():
        after = after[:1].upper() + after[1:]
    shorter = (before + after).strip()
    return (shorter, piece.strip()) if shorter else None


def _require_differences(seen: Sequence[float]) -> None:
    if len(set(seen)) < 2:
        raise InputError(
            f"{len(seen)} rewards of all texts are {'equal' if seen else 'missing'}; required: "
            "examples that tell texts apart; give others, neither too hard nor too easy"
        )
