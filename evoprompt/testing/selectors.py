"""Conformance suite of selectors."""

from __future__ import annotations

import copy
import math
import random
from collections import Counter
from dataclasses import replace

from evoprompt.roles import Selector
from evoprompt.selectors import select_distinct
from evoprompt.testing.samples import candidate_stats
from evoprompt.testing.suite import DrawingSuite, expect
from evoprompt.types import CandidateStats

SAMPLE_STATS = {
    "different weights": candidate_stats([0.1, 0.9, 0.5, 0.3]),
    "equal weights": candidate_stats([0.5, 0.5, 0.5]),
    "weights of zero": candidate_stats([0.0, 0.0, 0.0]),
    "negative weights": candidate_stats([-1.0, -0.2, -3.0]),
    "weights of both signs": candidate_stats([-1.0, 0.0, 2.0]),
    "huge weights": candidate_stats([1e12, -1e12, 3.0]),
    "a single candidate": candidate_stats([0.4]),
    "weights alike up to the last digit": candidate_stats([0.1 + 0.2, 0.3, 0.3]),
    "candidates that were never measured": [
        CandidateStats(stats.candidate, 0.0) for stats in candidate_stats([0.0] * 3)
    ],
    "standard errors of any size": [
        replace(stats, stderr=error)
        for stats, error in zip(
            candidate_stats([0.5, 0.5, 0.2, 0.3, 0.1]),
            (0.0, math.inf, 1e-300, 1e9, 0.1),
            strict=True,
        )
    ],
}
USUAL = SAMPLE_STATS["different weights"]


class SelectorSuite(DrawingSuite[Selector]):
    """Contract of every selector, for any preference."""

    def answer(self, component: Selector, seed: int) -> object:
        """Return the ids of the candidates that ``component`` selects of all kinds of samples."""
        rng = random.Random(seed)
        return [
            [stats.candidate.id for stats in component.select(list(sample), 20, rng)]
            for sample in SAMPLE_STATS.values()
        ]

    def test_chooses_exactly_k_of_the_given(self) -> None:
        for name, sample in SAMPLE_STATS.items():
            for k in (0, 1, len(sample), 50):
                chosen = self.build().select(list(sample), k, random.Random(k))
                expect(
                    len(chosen) == k,
                    f"{name}: asked for {k}, it chose {len(chosen)}; required: exactly k",
                )
                for selected in chosen:
                    expect(
                        any(selected is stats for stats in sample),
                        f"it returned {selected!r}, which it was not given; return the "
                        "objects given",
                    )

    def test_serves_as_survivor_and_parent_selector(self) -> None:
        for k in (1, 2, 3, 4):
            chosen = select_distinct(self.build(), list(USUAL), k, random.Random(0))
            expect(
                len({stats.candidate.id for stats in chosen}) == k,
                f"called repeatedly for {k} different candidates, it gave {len(chosen)}",
            )

    def test_changes_nothing_it_is_given(self) -> None:
        copied = copy.deepcopy(USUAL)
        self.build().select(copied, 3, random.Random(0))
        expect(copied == USUAL, "it changed the candidates it was given; copy what you change")

    def test_returns_probabilities_that_agree_with_its_choices(self) -> None:
        selector = self.build()
        if not selector.probabilities(USUAL):
            return
        for name, sample in SAMPLE_STATS.items():
            chances = selector.probabilities(list(sample))
            expect(
                len(chances) == len(sample)
                and min(chances) >= 0
                and math.isclose(math.fsum(chances), 1.0, rel_tol=1e-9),
                f"{name}: the probabilities {list(chances)} are no distribution over "
                f"{len(sample)} candidates",
            )
            draws = 4000
            chosen = self.build().select(list(sample), draws, random.Random(11))
            counts = Counter(stats.candidate.id for stats in chosen)
            for stats, chance in zip(sample, chances, strict=True):
                share = counts[stats.candidate.id] / draws
                tolerance = 5 * math.sqrt(chance * (1 - chance) / draws) + 1e-9
                expect(
                    abs(share - chance) <= tolerance,
                    f"{name}: it returned {chance:.3f} and chose {share:.3f} of the time",
                )
