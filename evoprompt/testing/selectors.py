"""The conformance suite of selectors."""

from __future__ import annotations

import copy
import math
import random
from collections import Counter
from dataclasses import replace

from evoprompt.roles import Selector
from evoprompt.selectors import select_distinct
from evoprompt.testing.samples import candidate_stats
from evoprompt.testing.suite import Suite, expect, no_global_randomness, same_state
from evoprompt.types import CandidateStats

WEIGHTS = {
    "different": [0.1, 0.9, 0.5, 0.3],
    "equal": [0.5, 0.5, 0.5],
    "zero": [0.0, 0.0, 0.0],
    "negative": [-1.0, -0.2, -3.0],
    "mixed": [-1.0, 0.0, 2.0],
    "huge": [1e12, -1e12, 3.0],
    "a single": [0.4],
    "alike up to the last digit": [0.1 + 0.2, 0.3, 0.3],
}


class SelectorSuite(Suite[Selector]):
    """What every selector must keep, whatever it prefers."""

    def choose(self, weights: list[float], k: int, seed: int = 0) -> list[str]:
        """Ids of the candidates that a new selector chooses."""
        chosen = self.build().select(candidate_stats(weights), k, random.Random(seed))
        return [stats.candidate.id for stats in chosen]

    def test_chooses_exactly_k_of_the_given(self) -> None:
        given = candidate_stats(WEIGHTS["different"])
        for k in (1, 2, 4, 9, 50):
            chosen = self.build().select(given, k, random.Random(k))
            expect(len(chosen) == k, f"asked for {k}, it chose {len(chosen)}; required: exactly k")
            for one in chosen:
                expect(
                    any(one is stats for stats in given),
                    f"it returned {one!r}, which it was not given; return the objects given",
                )

    def test_chooses_nobody_for_k_0(self) -> None:
        expect(self.choose([0.1, 0.2], 0) == [], "asked for 0, it chose somebody; required: nobody")

    def test_copes_with_all_finite_weights(self) -> None:
        for name, weights in WEIGHTS.items():
            for k in (1, len(weights), 20):
                chosen = self.choose(weights, k)
                expect(len(chosen) == k, f"{name} weights: asked for {k}, it chose {len(chosen)}")

    def test_copes_with_candidates_that_were_never_measured(self) -> None:
        given = [CandidateStats(stats.candidate, 0.0) for stats in candidate_stats([0.0] * 3)]
        chosen = self.build().select(given, 5, random.Random(0))
        expect(len(chosen) == 5, f"asked for 5, it chose {len(chosen)}")

    def test_copes_with_standard_errors_of_any_size(self) -> None:
        for errors in ((0.0, 0.0, 0.0), (0.0, math.inf, 1e-300), (1e9, 0.1, math.inf)):
            given = [
                replace(stats, stderr=error)
                for stats, error in zip(candidate_stats([0.5, 0.5, 0.2]), errors, strict=True)
            ]
            chosen = self.build().select(given, 6, random.Random(0))
            expect(len(chosen) == 6, f"standard errors {errors}: asked for 6, it chose {chosen}")

    def test_serves_as_survivor_and_parent_selector(self) -> None:
        given = candidate_stats(WEIGHTS["different"])
        for k in (1, 2, 3, 4):
            chosen = select_distinct(self.build(), given, k, random.Random(0))
            expect(
                len({stats.candidate.id for stats in chosen}) == k,
                f"asked again and again for {k} different candidates, it gave {len(chosen)}",
            )

    def test_repeats_itself_from_the_seed(self) -> None:
        for weights in WEIGHTS.values():
            expect(
                self.choose(weights, 30, seed=7) == self.choose(weights, 30, seed=7),
                "with the same generator it chose differently; take all randomness from rng",
            )

    def test_chooses_alike_however_often_it_chose_before(self) -> None:
        given, used, fresh = candidate_stats(WEIGHTS["different"]), self.build(), self.build()
        for seed in range(3):
            used.select(given, 20, random.Random(seed))
        same_state(used, fresh)
        one, other = (select(given, 30, random.Random(7)) for select in (used.select, fresh.select))
        expect(
            [stats.candidate.id for stats in one] == [stats.candidate.id for stats in other],
            "one that was used before chose differently from a new one; take all randomness from "
            "rng, and keep in state_dict what it must remember",
        )

    def test_draws_only_from_the_generator_handed_in(self) -> None:
        with no_global_randomness():
            self.choose(WEIGHTS["different"], 20)

    def test_changes_nothing_it_is_given(self) -> None:
        given = candidate_stats(WEIGHTS["different"])
        before = copy.deepcopy(given)
        self.build().select(given, 3, random.Random(0))
        expect(given == before, "it changed the candidates it was given; copy what you change")

    def test_says_probabilities_that_agree_with_its_choices(self) -> None:
        selector = self.build()
        if not selector.probabilities(candidate_stats(WEIGHTS["different"])):
            return
        for name, weights in WEIGHTS.items():
            given = candidate_stats(weights)
            chances = selector.probabilities(given)
            expect(
                len(chances) == len(given)
                and min(chances) >= 0
                and math.isclose(math.fsum(chances), 1.0, rel_tol=1e-9),
                f"{name} weights: the probabilities {list(chances)} are no distribution over "
                f"{len(given)} candidates",
            )
            draws = 4000
            counts = Counter(self.choose(weights, draws, seed=11))
            for stats, chance in zip(given, chances, strict=True):
                share = counts[stats.candidate.id] / draws
                tolerance = 5 * math.sqrt(chance * (1 - chance) / draws) + 1e-9
                expect(
                    abs(share - chance) <= tolerance,
                    f"{name} weights: it says {chance:.3f} and chose {share:.3f} of the time",
                )
