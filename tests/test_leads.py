"""Whether one candidate is better than another: by question, in pairs where there are some."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest

from evoprompt.attributors import Adjusted, WindowMean
from evoprompt.log.summaries import rewards_of
from evoprompt.roles import Attributor
from evoprompt.support.leads import Lead, describe_best
from evoprompt.testing.samples import question
from evoprompt.types import Assignment, Candidate, Question, Trajectory

Rewards = Mapping[str, Mapping[str, list[float]]]
"""Rewards of a step by question and candidate."""
UNKNOWN = Lead(0.0, math.inf)


class Run:
    """An attributor that observes steps of given rewards, and forgets nothing by default."""

    def __init__(self, attributor: Attributor | None = None, half_life: float = 1e15) -> None:
        self.attributor = Adjusted(half_life) if attributor is None else attributor
        self.step = 0

    def observe(self, rewards: Rewards) -> None:
        self.step += 1
        self.attributor.observe(
            self.step,
            [
                Trajectory(
                    Assignment(
                        f"{self.step}-{name}-{who}",
                        Question(name, "Who?"),
                        named(who),
                        len(own),
                        name,
                    ),
                    reward,
                    rollout,
                )
                for name, by_candidate in rewards.items()
                for who, own in by_candidate.items()
                for rollout, reward in enumerate(own)
            ],
        )

    def lead(self, candidate: str, other: str) -> Lead:
        return self.attributor.lead(named(candidate), named(other))


def named(name: str) -> Candidate:
    return Candidate(name, {"instruction": f"Way {name}."})


def shared(pairs: Mapping[str, tuple[float, float]]) -> dict[str, dict[str, list[float]]]:
    """Return questions that were asked under ``a`` and under ``b``."""
    return {name: {"a": [mine], "b": [other]} for name, (mine, other) in pairs.items()}


def alone(**rewards: list[float]) -> dict[str, dict[str, list[float]]]:
    """Return questions of one step, each asked under one candidate."""
    return {
        f"{name}{number}": {name: [reward]}
        for name, own in rewards.items()
        for number, reward in enumerate(own)
    }


def numbered(rewards: Rewards, step: int) -> dict[str, Mapping[str, list[float]]]:
    """Return the same as questions that never come again."""
    return {f"{step} {name}": own for name, own in rewards.items()}


def is_shown(lead: Lead, z: float = 1.96) -> bool:
    return lead.is_known and abs(lead.value) > z * lead.stderr


def by_pseudo_inverse(run: Run, candidate: str, other: str) -> Lead:
    """Return the lead from the same regression on all together, solved for one pair."""
    run.attributor.observe(run.step + 1, [])
    state: Any = run.attributor.state_dict()["equations"]
    names, information = state["names"], np.array(state["information"])
    contrast = np.zeros(len(names))
    contrast[names.index(candidate)], contrast[names.index(other)] = 1.0, -1.0
    weights = np.linalg.pinv(information, 1e-10, hermitian=True) @ contrast
    if not np.allclose(information @ weights, contrast, atol=1e-6):
        return UNKNOWN
    said = np.array(state["scores"]) @ weights
    square = float(said @ said + weights @ np.array(state["squares"]) @ weights)
    return Lead(float(weights @ np.array(state["evidence"])), math.sqrt(square))


class TestLead:
    @pytest.mark.parametrize("seed", range(5))
    def test_of_all_together_is_that_of_each_pair(self, seed: int) -> None:
        """Of two groups that never meet, some by pairs and some by steps, and one is pruned."""
        rng = random.Random(seed)
        run = Run(half_life=60)
        for _ in range(40):
            for group in ("abcd", "uvw"):
                run.observe(
                    {
                        f"{group} {run.step} {n}": {
                            name: [rng.random()] for name in rng.sample(group, each)
                        }
                        for each in (1, 2)
                        for n in range(3)
                    }
                )
        run.attributor.forget(["b"])
        for other in "abcduvw":
            for candidate in "abcduvw".replace(other, ""):
                expected = by_pseudo_inverse(run, candidate, other)
                lead = run.lead(candidate, other)
                assert (lead.value, lead.stderr) == pytest.approx((expected.value, expected.stderr))
                assert lead.is_known == ((candidate in "abcd") == (other in "abcd"))

    def test_of_shared_questions_is_the_paired_difference(self) -> None:
        rng = random.Random(1)
        pairs = {f"q{n}": (rng.random(), rng.random()) for n in range(50)}
        run = Run()
        run.observe(shared(pairs))
        differences = [mine - other for mine, other in pairs.values()]
        lead = run.lead("a", "b")
        assert lead.value == pytest.approx(fmean(differences))
        squares = math.sqrt(math.fsum(d**2 for d in differences)) / len(differences)
        assert lead.stderr == pytest.approx(squares)
        back = run.lead("b", "a")
        assert (back.value, back.stderr) == pytest.approx((-lead.value, lead.stderr))

    def test_is_not_the_difference_of_two_weights(self) -> None:
        """Their errors are about the mean of all, and the questions that they share are not."""
        rng = random.Random(2)
        run = Run()
        ease = {f"q{n}": rng.gauss(0, 1) for n in range(40)}
        run.observe({q: {"a": [e + 0.1 + rng.gauss(0, 0.01)], "b": [e]} for q, e in ease.items()})
        lead = run.lead("a", "b")
        weights = [run.attributor.stats(named(name)).weight for name in "ab"]
        assert lead.value == pytest.approx(0.1, abs=0.01)
        assert 0 < weights[0] - weights[1] < lead.value
        assert lead.stderr < 0.1

    def test_weighs_a_question_by_its_rollouts(self) -> None:
        run = Run()
        for step in range(12):
            rewards = {"q1": {"a": [1.0], "b": [0.0]}, "q2": {"a": [0.0] * 2, "b": [0.0] * 2}}
            run.observe(numbered(rewards, step))
        assert run.lead("a", "b").value == pytest.approx(1 / 3)

    @pytest.mark.parametrize("name", ["a", "b"])
    def test_needs_a_dozen_groups_of_either(self, name: str) -> None:
        run = Run()
        other = "ab".replace(name, "")
        for step in range(11):
            run.observe({f"{step}": {name: [1.0], other: [float(step % 2)]}})
            assert run.lead("a", "b") == run.lead("b", "a") == UNKNOWN
        run.observe({"more": {other: [1.0]}, "and more": {other: [0.0]}})
        assert run.lead("a", "b") == UNKNOWN
        run.observe({"12": {name: [1.0], other: [0.0]}})
        assert run.lead("a", "b").is_known
        assert run.lead("b", "a").is_known

    def test_is_not_the_progress_of_the_policy(self) -> None:
        """``b`` is asked more often when everything goes better."""
        run = Run()
        for step in range(40):
            level = step / 40
            many, few = [level] * (1 + step // 4), [level] * (11 - step // 4)
            run.observe(numbered(alone(a=few, b=many), step))
        assert run.lead("b", "a").value == pytest.approx(0)
        assert not is_shown(run.lead("b", "a"))

    def test_counts_a_question_once_however_often_it_was_asked(self) -> None:
        rng = random.Random(3)
        once, often = Run(), Run()
        effect = {f"q{n}": rng.gauss(0, 1) for n in range(30)}
        pairs = {name: (value, 0.0) for name, value in effect.items()}
        once.observe(shared(pairs))
        for _ in range(25):
            often.observe(shared(pairs))
        lead, expected = often.lead("a", "b"), once.lead("a", "b")
        assert (lead.value, lead.stderr) == pytest.approx((expected.value, expected.stderr))

    def test_of_questions_that_come_again_under_one_candidate_has_an_honest_error(self) -> None:
        """Some are easy, which candidate has them is drawn, and 100 runs are looked at."""
        rng = random.Random(5)
        scores = []
        for _ in range(100):
            ease, run = [rng.random() for _ in range(40)], Run()
            for _ in range(30):
                drawn = [(n, rng.choice("ab")) for n in rng.sample(range(40), 16)]
                run.observe({f"q{n}": {who: [ease[n] + 0.1 * (who == "a")]} for n, who in drawn})
            lead = run.lead("a", "b")
            scores.append((lead.value - 0.1) / lead.stderr)
        assert abs(fmean(scores)) < 0.3
        assert 0.7 < stdev(scores) < 1.3

    def test_is_unknown_where_nothing_compares_the_two(self) -> None:
        run = Run()
        assert run.lead("a", "b") == UNKNOWN
        for step in range(20):
            run.observe({f"{step} 1": {"a": [1.0], "b": [float(step % 2)]}})
            run.observe({f"{step} 2": {"c": [1.0], "d": [float(step % 2)]}})
        assert run.lead("a", "b").is_known
        assert run.lead("a", "c") == UNKNOWN
        assert run.lead("a", "a") == UNKNOWN
        assert run.lead("a", "never drawn") == UNKNOWN
        assert run.lead("never drawn", "a") == UNKNOWN

    @pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -1e100])
    def test_of_ties_has_no_standard_error(self, value: float) -> None:
        run = Run()
        for step in range(50):
            run.observe(numbered(alone(a=[value] * 3, b=[value] * 5), step))
            run.observe(numbered(shared({"q": (value, value)}), step))
        for lead in (run.lead("a", "b"), run.lead("b", "a")):
            assert (lead.value, lead.stderr) == (0.0, 0.0)
            assert not lead.is_known
            assert lead.odds() == 1.0

    def test_of_a_few_questions_that_agree_shows_nothing(self) -> None:
        run = Run()
        for step in range(1000):
            run.observe({"the only one": {"a": [1.0], "b": [0.0 if step % 9 else 1.0]}})
        assert not is_shown(run.lead("a", "b"))
        assert run.lead("a", "b").odds() < 5

    @pytest.mark.parametrize("change", [lambda one: 1e90 * one, lambda one: -7 + 1e-5 * one])
    def test_does_not_depend_on_the_range_of_rewards(
        self, change: Callable[[float], float]
    ) -> None:
        rng = random.Random(6)
        usual, other = Run(), Run()
        for step in range(20):
            means = numbered(alone(a=[rng.random(), rng.random()], b=[rng.random()] * 2), step)
            usual.observe(means)
            other.observe(
                {
                    q: {c: [change(reward) for reward in own] for c, own in m.items()}
                    for q, m in means.items()
                }
            )
        lead, changed = usual.lead("a", "b"), other.lead("a", "b")
        assert changed.value / changed.stderr == pytest.approx(lead.value / lead.stderr, rel=1e-3)

    def test_errs_as_seldom_as_is_said_where_candidates_are_equal(self) -> None:
        wrong = 0
        for seed in range(400):
            rng = random.Random(seed)
            run = Run(half_life=60)
            for step in range(15):
                ease = [rng.gauss(0, 1) for _ in range(8)]
                rewards = [float(rng.random() < 1 / (1 + math.exp(-2 * one))) for one in ease]
                mine, others = rewards[: 2 + step % 3], rewards[2 + step % 3 :]
                run.observe(numbered(alone(a=mine, b=others), step))
            wrong += is_shown(run.lead("a", "b"))
        assert 8 <= wrong <= 32  # .05 of 400 is 20, two and a half standard deviations about it


class TestDefaultLead:
    """Lead of an attributor that has only ``stats``."""

    def test_is_the_difference_of_two_weights_with_independent_errors(self) -> None:
        run = Run(WindowMean())
        rng = random.Random(0)
        for step in range(5):
            rewards = alone(a=[rng.random() for _ in range(9)], b=[rng.random() for _ in range(6)])
            run.observe(numbered(rewards, step))
        a, b = (run.attributor.stats(named(name)) for name in "ab")
        lead, back = run.lead("a", "b"), run.lead("b", "a")
        assert lead.value == pytest.approx(a.weight - b.weight)
        assert lead.stderr == pytest.approx(math.sqrt(a.stderr**2 + b.stderr**2))
        assert (back.value, back.stderr) == (-lead.value, lead.stderr)

    def test_over_itself_or_what_was_never_drawn_shows_nothing(self) -> None:
        run = Run(WindowMean())
        for step in range(9):
            run.observe(numbered(alone(a=[1.0, 0.0]), step))
        assert run.lead("a", "a").value == 0
        assert run.lead("a", "a").odds() <= 1
        assert not run.lead("a", "never drawn").is_known
        assert not run.lead("never drawn", "a").is_known


class TestState:
    def observe(self, steps: range, run: Run) -> Run:
        run.step = steps.start
        for step in steps:
            rng = random.Random(step)
            run.observe(
                {f"q{rng.randrange(3000)}": {rng.choice("abc"): [rng.random()]} for _ in range(300)}
                | {f"s{rng.randrange(90)}": {"a": [rng.random()], "c": [rng.random()]}}
            )
            if step == 6:
                run.attributor.forget({"b"})
        return run

    def test_goes_on_from_a_checkpoint_to_the_last_digit(self) -> None:
        whole = self.observe(range(30), Run(half_life=60))
        resumed = Run(half_life=60)
        saved = self.observe(range(12), Run(half_life=60)).attributor.state_dict()
        resumed.attributor.load_state_dict(json.loads(json.dumps(saved, allow_nan=False)))
        self.observe(range(12, 30), resumed)
        assert resumed.attributor.state_dict() == whole.attributor.state_dict()
        assert resumed.lead("a", "c") == whole.lead("a", "c")

    def test_is_bounded_and_the_lead_is_not_cut(self) -> None:
        run = Run()
        for step in range(80):
            run.observe({f"{step} {n}": {"a": [1.0], "b": [float(n % 2)]} for n in range(256)})
        assert len(json.dumps(run.attributor.state_dict())) < 1_000_000
        lead = run.lead("a", "b")
        assert lead.value == pytest.approx(0.5)
        assert lead.stderr == pytest.approx(math.sqrt(0.5 / (80 * 256)))

    def test_the_lead_over_a_pruned_candidate_is_known(self) -> None:
        run = Run()
        for step in range(20):
            run.observe({f"{step} 1": {"a": [1.0], "b": [float(step % 2)]}})
        before = run.lead("a", "b")
        run.attributor.forget(["b"])
        assert run.lead("a", "b") == before


@pytest.mark.parametrize(
    ("best", "is_known_better", "sentence"),
    [
        ("c0", False, "the best is the first instruction, c0: none leads it at odds of 2 : 1"),
        ("c4", True, "c4 is shown to be better than the first instruction, c0"),
        ("c4", False, "c4 leads, but is not shown to be better than the first instruction, c0"),
    ],
)
def test_the_best_is_described_beside_the_first(
    best: str, is_known_better: bool, sentence: str
) -> None:
    assert describe_best(best, "c0", is_known_better).startswith(sentence)


def test_rewards_leave_out_what_was_not_scored() -> None:
    def told(candidate: str, *rewards: float | None) -> list[Trajectory]:
        assignment = Assignment("1", question(1), Candidate(candidate, {}), len(rewards), "1")
        return [Trajectory(assignment, one, n) for n, one in enumerate(rewards)]

    found = rewards_of([*told("a", 1.0, None, 0.0), *told("b", None)])
    assert found == {question(1).id: {"a": [1.0, 0.0]}}


class TestVerdict:
    """Of a comparison that is looked at after each step, until it is decided."""

    @pytest.mark.parametrize("reward", ["solved or not", "any number"])
    def test_who_is_no_better_is_seldom_called_better_at_any_look(self, reward: str) -> None:
        """150 looks at 200 pairs of equals: by Ville at most .2 and .05, in a generous interval."""
        tops = [
            top_odds(random.Random(f"{reward} {seed}"), reward, looks=150) for seed in range(200)
        ]
        loose, strict = (sum(top >= most for top in tops) / len(tops) for most in (5, 20))
        assert loose <= 0.2 + 3 * math.sqrt(0.2 * 0.8 / len(tops))
        assert strict <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / len(tops))
        assert Lead(0.0, 0.1).verdict(0.05, odds=100) != "better"

    def test_finds_leads_and_drops_those_without(self) -> None:
        assert Lead(0.06, 0.02).verdict(0.05) == "better"
        assert Lead(0.06, 0.02).verdict(0.05, odds=1000) == ""
        assert Lead(0.0, 0.02).verdict(0.05) == "drop"
        assert Lead(0.03, 0.02).verdict(0.05) == ""
        assert Lead(0.0, math.inf).verdict(0.05) == ""

    def test_does_not_depend_on_the_range_of_rewards(self) -> None:
        for value, stderr in ((0.08, 0.03), (-0.02, 0.03), (0.9, 1e-4), (-0.9, 1e-4)):
            wide = Lead(100 * value, 100 * stderr)
            assert wide.odds(useful=5.0) == pytest.approx(Lead(value, stderr).odds())
            assert wide.verdict(5.0, useful=5.0) == Lead(value, stderr).verdict(0.05)


def top_odds(rng: random.Random, reward: str, looks: int) -> float:
    """The highest odds that a pair of equals ever has, with a look after every fourth question."""
    total = squares = 0.0
    top = 0.0
    for count in range(1, 4 * looks + 1):
        level = rng.gauss(0.0, 0.3) if reward == "any number" else 0.0
        chance = 1 / (1 + math.exp(-rng.gauss(-0.6, 2)))
        one, other = (
            level + rng.gauss(0.0, 0.2) if level else float(rng.random() < chance) for _ in range(2)
        )
        total, squares = total + one - other, squares + (one - other) ** 2
        if squares and not count % 4:
            top = max(top, Lead(total / count, math.sqrt(squares) / count).odds())
    return top
