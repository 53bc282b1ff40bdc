"""One event sums up a step of any size."""

from __future__ import annotations

from evoprompt.summaries import summarise_ask, summarise_tell
from evoprompt.testing.samples import candidate, candidate_stats


class TestAsk:
    def test_lists_the_likeliest_of_many_only(self) -> None:
        count = 1000
        chances = [number / 499_500 for number in range(count)]
        drawn = [candidate(number) for number in range(count)]
        found = summarise_ask(1, candidate_stats([0.0] * count), chances, [*drawn, drawn[7]], 1)
        assert list(found.probabilities)[:2] == ["c999", "c998"]
        assert len(found.probabilities) == len(found.draws) == 64
        assert next(iter(found.draws.items())) == ("c7", 2)


class TestTell:
    def test_lists_the_heaviest_of_many_only(self) -> None:
        weights = [number / 1000 for number in range(1000)]
        found = summarise_tell(1, 0, [], candidate_stats(weights)).weights
        assert list(found.items()) == [(f"c{n}", n / 1000) for n in range(999, 935, -1)]
