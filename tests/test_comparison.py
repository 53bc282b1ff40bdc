"""Whether one candidate is better than another: by question, in pairs where there are some."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from evoprompt.comparison import Evidence, Lead, rewards_of

from evoprompt.testing.samples import question
from evoprompt.types import Assignment, Candidate, Trajectory


def shared(pairs: Mapping[str, tuple[float, float]]) -> dict[str, dict[str, list[float]]]:
    """Questions that were asked under ``a`` and under ``b``."""
    return {name: {"a": [one], "b": [other]} for name, (one, other) in pairs.items()}


def alone(**rewards: list[float]) -> dict[str, dict[str, list[float]]]:
    """Questions of one step, each asked under one candidate."""
    return {
        f"{name}{number}": {name: [reward]}
        for name, found in rewards.items()
        for number, reward in enumerate(found)
    }


def numbered(
    rewards: Mapping[str, Mapping[str, list[float]]], step: int
) -> dict[str, Mapping[str, list[float]]]:
    """The same as questions that never come again."""
    return {f"{step} {name}": found for name, found in rewards.items()}


def by_pseudo_inverse(evidence: Evidence, one: str, other: str) -> Lead:
    """The same regression on everybody at once, solved for one pair."""
    state: Any = evidence.state_dict()
    names, information = state["names"], np.array(state["information"])
    scores = np.array([score for _, score, _, _ in state["questions"]])
    contrast = np.zeros(len(names))
    contrast[names.index(one)], contrast[names.index(other)] = 1.0, -1.0
    weights = np.linalg.pinv(information, 1e-10, hermitian=True) @ contrast
    if not np.allclose(information @ weights, contrast, atol=1e-6):
        return Lead(0.0, math.inf)
    said = scores @ weights
    square = float(said @ said + weights @ np.array(state["squares"]) @ weights)
    return Lead(float(weights @ np.array(state["evidence"])), math.sqrt(square))


class TestLead:
    @pytest.mark.parametrize("seed", range(5))
    def test_of_all_at_once_is_that_of_each_pair(self, seed: int) -> None:
        """Of two groups that never meet, some by pairs and some by steps, and one that is gone."""
        rng = random.Random(seed)
        evidence = Evidence()
        for step in range(40):
            for group in ("abcd", "uvw"):
                asked = {
                    f"{group} {step} {n}": {
                        name: [rng.random()] for name in rng.sample(group, each)
                    }
                    for each in (1, 2)
                    for n in range(3)
                }
                evidence.observe(asked)
        evidence.forget(["b"])
        for other in "acduvw":
            leads = evidence.leads(other)
            assert set(leads) == set("acd" if other in "acd" else "uvw") - {other}
            for one in "acduvw".replace(other, ""):
                expected = by_pseudo_inverse(evidence, one, other)
                found = evidence.lead(one, other)
                assert (found.value, found.stderr) == pytest.approx(
                    (expected.value, expected.stderr)
                )

    def test_of_shared_questions_is_the_paired_difference(self) -> None:
        rng = random.Random(1)
        pairs = {f"q{n}": (rng.random(), rng.random()) for n in range(50)}
        evidence = Evidence()
        evidence.observe(shared(pairs))
        differences = [one - other for one, other in pairs.values()]
        found = evidence.lead("a", "b")
        assert found.value == pytest.approx(fmean(differences))
        squares = math.sqrt(math.fsum(one**2 for one in differences)) / len(differences)
        assert found.stderr == pytest.approx(squares)
        back = evidence.lead("b", "a")
        assert (back.value, back.stderr) == pytest.approx((-found.value, found.stderr))

    def test_weighs_a_question_by_its_rollouts(self) -> None:
        evidence = Evidence()
        evidence.observe({"q1": {"a": [1.0], "b": [0.0]}, "q2": {"a": [0.0] * 2, "b": [0.0] * 2}})
        assert evidence.lead("a", "b").value == pytest.approx(1 / 3)

    def test_is_not_the_progress_of_the_policy(self) -> None:
        """``b`` is asked more often when everything goes better."""
        evidence = Evidence()
        for step in range(40):
            level = step / 40
            many, few = [level] * (1 + step // 4), [level] * (11 - step // 4)
            evidence.observe(numbered(alone(a=few, b=many), step))
        assert evidence.lead("b", "a").value == pytest.approx(0)
        assert not evidence.lead("b", "a").is_shown(0.05)

    def test_counts_a_question_once_however_often_it_was_asked(self) -> None:
        rng = random.Random(3)
        once, often = Evidence(), Evidence()
        effect = {f"q{n}": rng.gauss(0, 1) for n in range(30)}
        for step in range(25):
            asked = {name: (value, 0.0) for name, value in effect.items()}
            if not step:
                once.observe(shared(asked))
            often.observe(shared(asked))
        found, expected = often.lead("a", "b"), once.lead("a", "b")
        assert (found.value, found.stderr) == pytest.approx((expected.value, expected.stderr))

    def test_is_sharper_where_questions_come_again_and_no_different(self) -> None:
        """How easy a question is, is known the second time."""
        rng = random.Random(5)
        ease = [rng.random() for _ in range(40)]
        again, never = Evidence(), Evidence()
        for step in range(30):
            drawn = [(n, rng.choice("ab")) for n in rng.sample(range(40), 16)]
            means = {f"q{n}": {who: [ease[n] + 0.1 * (who == "a")]} for n, who in drawn}
            again.observe(means)
            never.observe(numbered(means, step))
        assert again.lead("a", "b").value == pytest.approx(0.1, abs=0.03)
        assert again.lead("a", "b").stderr < 0.7 * never.lead("a", "b").stderr

    def test_is_unknown_where_nothing_compares_the_two(self) -> None:
        evidence = Evidence()
        nothing = Lead(0.0, math.inf)
        assert evidence.lead("a", "b") == nothing
        evidence.observe({"q1": {"a": [1.0], "b": [0.0]}})
        evidence.observe({"q2": {"c": [1.0], "d": [0.0]}})
        assert evidence.lead("a", "c") == nothing
        assert evidence.lead("a", "a") == nothing
        assert evidence.lead("a", "never drawn") == nothing
        assert not nothing.is_shown(0.4)

    @pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -1e100])
    def test_of_equal_rewards_is_none(self, value: float) -> None:
        evidence = Evidence()
        for step in range(50):
            evidence.observe(numbered(alone(a=[value] * 3, b=[value] * 5), step))
            evidence.observe(numbered(shared({"q": (value, value)}), step))
        assert not evidence.lead("a", "b").is_shown(0.4)
        assert not evidence.lead("b", "a").is_shown(0.4)

    def test_of_a_few_questions_that_agree_shows_nothing(self) -> None:
        evidence = Evidence()
        for step in range(1000):
            evidence.observe({"the only one": {"a": [1.0], "b": [0.0 if step % 9 else 1.0]}})
        assert not evidence.lead("a", "b").is_shown(0.1)

    @pytest.mark.parametrize("change", [lambda one: 1e90 * one, lambda one: -7 + 1e-5 * one])
    def test_does_not_depend_on_the_range_of_rewards(
        self, change: Callable[[float], float]
    ) -> None:
        rng = random.Random(6)
        usual, other = Evidence(), Evidence()
        for step in range(20):
            means = numbered(alone(a=[rng.random(), rng.random()], b=[rng.random()] * 2), step)
            usual.observe(means)
            other.observe(
                {
                    q: {c: [change(one) for one in found] for c, found in m.items()}
                    for q, m in means.items()
                }
            )
        one, two = usual.lead("a", "b"), other.lead("a", "b")
        assert two.value / two.stderr == pytest.approx(one.value / one.stderr, rel=1e-3)

    def test_errs_as_seldom_as_is_said_where_candidates_are_equal(self) -> None:
        wrong = 0
        for seed in range(400):
            rng = random.Random(seed)
            evidence = Evidence()
            for step in range(15):
                ease = [rng.gauss(0, 1) for _ in range(8)]
                rewards = [float(rng.random() < 1 / (1 + math.exp(-2 * one))) for one in ease]
                mine, others = rewards[: 2 + step % 3], rewards[2 + step % 3 :]
                evidence.observe(numbered(alone(a=mine, b=others), step))
            wrong += evidence.lead("a", "b").is_shown(0.05)
        assert 8 <= wrong <= 32  # .05 of 400 is 20, two and a half standard deviations about it


class TestState:
    def evidence(self, steps: range, evidence: Evidence) -> Evidence:
        for step in steps:
            rng = random.Random(step)
            evidence.observe(
                {f"q{rng.randrange(3000)}": {rng.choice("abc"): [rng.random()]} for _ in range(300)}
                | {f"s{rng.randrange(90)}": {"a": [rng.random()], "c": [rng.random()]}}
            )
            if step == 6:
                evidence.forget({"b"})
        return evidence

    def test_goes_on_from_a_checkpoint_to_the_last_digit(self) -> None:
        whole = self.evidence(range(30), Evidence())
        resumed = Evidence()
        saved = self.evidence(range(12), Evidence()).state_dict()
        resumed.load_state_dict(json.loads(json.dumps(saved, allow_nan=False)))
        assert self.evidence(range(12, 30), resumed).state_dict() == whole.state_dict()
        assert resumed.lead("a", "c") == whole.lead("a", "c")

    def test_is_bounded_and_the_lead_is_not_cut(self) -> None:
        evidence = Evidence()
        for step in range(80):
            evidence.observe({f"{step} {n}": {"a": [1.0], "b": [float(n % 2)]} for n in range(256)})
        assert len(json.dumps(evidence.state_dict())) < 1_000_000
        found = evidence.lead("a", "b")
        assert found.value == pytest.approx(0.5)
        assert found.stderr == pytest.approx(math.sqrt(0.5 / (80 * 256)))


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
        assert Lead(0.0, 0.1).verdict(0.05, error=0.01) != "better"

    def test_finds_leads_and_drops_those_without(self) -> None:
        assert Lead(0.06, 0.02).verdict(0.05) == "better"
        assert Lead(0.06, 0.02).verdict(0.05, error=0.001) == ""
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
