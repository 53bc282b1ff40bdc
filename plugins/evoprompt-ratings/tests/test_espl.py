"""The preset espl draws, rates and evolves as its paper says, with the installed plugin."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from statistics import fmean

import pytest
from numbered_engine import QUESTIONS, Numbered, engine, little_better
from openskill.models import ThurstoneMostellerFull

from evoprompt.engine import Engine
from evoprompt.testing import ScriptedPolicy
from evoprompt.types import Assignment

POLICY = ScriptedPolicy(little_better)


def step(one: Engine) -> list[Assignment]:
    one.evolve(POLICY)
    asked = one.ask(QUESTIONS, 2)
    one.tell(POLICY(asked))
    return asked


class TestEspl:
    def test_all_questions_of_a_step_meet_the_newest_and_two_others(self) -> None:
        one, met = engine(preset="espl"), Counter[int]()
        for number in range(1, 60):
            asked = step(one)
            alive = [living.id for living in one.population.alive]
            blocks = [tuple(a.candidate.id for a in asked[3 * n : 3 * n + 3]) for n in range(8)]
            assert len(set(blocks)) == 1
            if number > 4:
                assert len(set(blocks[0])) == 3
                assert alive[-1] in blocks[0]
                met.update(alive.index(name) for name in blocks[0])
            assert len({a.group for a in asked}) == len(asked)
            assert len(alive) == min(number, 5)
        assert met[4] == 55
        for place in range(4):
            assert 14 < met[place] < 42  # half of 55, 3.7 standard deviations

    def test_nobody_is_verified_and_each_step_brings_one_child_of_the_best_rated(self) -> None:
        one = engine(preset="espl")
        proposer = one.proposer
        assert isinstance(proposer, Numbered)
        for _ in range(20):
            best = one.selection.leader.id
            before = proposer.made
            step(one)
            assert proposer.made == min(before + 1, one.step - 1)
            if proposer.made > before:
                assert proposer.requests[-1].parents[0].candidate.id == best
        assert one.verification_rollouts == 0

    def test_ratings_follow_from_the_ranks_of_each_step(self) -> None:
        """An independent reference: ranks of step means, E-SPL's ties, games by openskill."""
        model = ThurstoneMostellerFull(epsilon=0.7404625)
        known: dict[str, tuple[float, float]] = {}
        one = engine(preset="espl")
        for _ in range(15):
            asked = step(one)
            earned: dict[str, list[float]] = {}
            for assignment in asked:
                earned.setdefault(assignment.candidate.id, []).append(little_better(assignment))
                if assignment.candidate.id not in known:
                    parents = assignment.candidate.parents
                    mean, error = known[parents[0]] if parents else (25.0, 25 / 3)
                    wider = (error**2 + 1) ** 0.5 if parents else error
                    known[assignment.candidate.id] = (mean, wider)
            ranking = sorted(earned, key=lambda name: (-fmean(earned[name]), name))
            ranks = [0.0]
            for better, worse in pairwise(ranking):
                ranks.append(ranks[-1] + (fmean(earned[better]) - fmean(earned[worse]) > 0.01))
            if len(ranking) > 1:
                players = [[model.rating(mu=known[n][0], sigma=known[n][1])] for n in ranking]
                for name, (after,) in zip(ranking, model.rate(players, ranks=ranks), strict=True):
                    known[name] = (after.mu, after.sigma)
            for stats in one.candidate_stats():
                if stats.groups:
                    assert (stats.weight, stats.stderr) == pytest.approx(
                        known[stats.candidate.id], rel=1e-5
                    )
