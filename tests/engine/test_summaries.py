"""One event sums up a step of any size."""

from __future__ import annotations

from evoprompt.log.summaries import summarise_ask, summarise_tell
from evoprompt.testing.samples import candidate, candidate_stats, question, trajectory


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

    def test_counts_the_groups_that_were_compared_and_those_of_equal_rewards(self) -> None:
        rewards: dict[int, list[float | None]] = {
            0: [0.5, 0.5, 0.5],
            1: [0.0, 1.0],
            2: [1.0, None, 1.0],
            3: [1.0],
            4: [None],
        }
        trajectories = [  # the samples put all rollouts of a candidate into one group
            trajectory(candidate(group), question(0), reward, index)
            for group, values in rewards.items()
            for index, reward in enumerate(values)
        ]
        event = summarise_tell(1, 0, trajectories, [])
        assert (event.groups, event.groups_without_signal) == (3, 2)
