"""Rows for lives, so that no two overlap."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping, Sequence

from evoprompt.experiments.report.records import Life


def lanes(lives: Iterable[Life], end: int, first: Collection[str] = ()) -> Mapping[str, int]:
    """A row for each life, the lowest in which it overlaps no other.

    Args:
        lives: in order of birth.
        end: the last step, up to which the living are drawn.
        first: candidates that are given a row before all others.
    """
    rows: list[list[tuple[int, int]]] = []
    placed: dict[str, int] = {}
    for life in sorted(lives, key=lambda life: life.candidate not in first):
        span = (life.born, end if life.died is None else life.died)
        row = next((row for row, taken in enumerate(rows) if _fits(span, taken)), len(rows))
        if row == len(rows):
            rows.append([])
        insort(rows[row], span)
        placed[life.candidate] = row
    return placed


def _fits(span: tuple[int, int], taken: Sequence[tuple[int, int]]) -> bool:
    """Whether a gap of at least a step parts the span from all that are there, oldest first."""
    after = bisect_left(taken, span)
    return (not after or taken[after - 1][1] < span[0]) and (
        after == len(taken) or span[1] < taken[after][0]
    )
