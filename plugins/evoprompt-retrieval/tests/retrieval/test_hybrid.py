from __future__ import annotations

from collections.abc import Sequence

import pytest
from evoprompt_retrieval.hybrid import HybridIndex
from evoprompt_retrieval.index import Hit


class Fixed:
    """Always finds the same rows."""

    def __init__(self, *rows: int) -> None:
        self._rows = rows

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        return [[Hit(row, 9.0) for row in self._rows[:topk]] for _ in queries]


def test_scores_are_sums_of_reciprocal_ranks() -> None:
    hits = HybridIndex([Fixed(4, 5), Fixed(5, 6)]).search(["x"], 3)[0]
    assert [hit.row for hit in hits] == [5, 4, 6]
    assert [hit.score for hit in hits] == pytest.approx([1 / 11 + 1 / 12, 1 / 11, 1 / 12])


def test_the_constant_decides_between_one_first_rank_and_two_later_ones() -> None:
    parts = [Fixed(1, 2, 3, 4, 5, 6, 7, 8, 9), Fixed(*range(20, 43), 9)]
    assert HybridIndex(parts).search(["x"], 1)[0][0].row == 1
    assert HybridIndex(parts, constant=60).search(["x"], 1)[0][0].row == 9


def test_ties_keep_the_order_of_the_corpus() -> None:
    hits = HybridIndex([Fixed(8, 1), Fixed(3, 2)]).search(["x"], 4)[0]
    assert [hit.row for hit in hits] == [3, 8, 1, 2]


def test_ranks_beyond_topk_count() -> None:
    both = HybridIndex([Fixed(1, 2, 7), Fixed(3, 4, 7)])
    assert both.search(["x"], 1)[0][0].row == 7
    shallow = HybridIndex([Fixed(1, 2, 7), Fixed(3, 4, 7)], depth=1)
    assert shallow.search(["x"], 1)[0][0].row == 1


def test_every_query_is_answered() -> None:
    assert [len(hits) for hits in HybridIndex([Fixed(), Fixed(1)]).search(["a", "b"], 3)] == [1, 1]
    assert HybridIndex([Fixed(), Fixed()]).search(["a"], 3) == [[]]
