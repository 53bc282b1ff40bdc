"""Training decides who stays, by what it told of candidates and parent at the same steps."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import pytest

from evoprompt.roles import Stateful, SupportsProbation, Verifier
from evoprompt.testing import VerifierSuite
from evoprompt.testing.samples import candidate, question, trajectory
from evoprompt.types import Trajectory
from evoprompt.verifiers import Probation

PARENT, GOOD, BAD = candidate(0), candidate(1, ["c0"]), candidate(2, ["c0"])


class TestConforms(VerifierSuite):
    def build(self) -> Verifier:
        return Probation()


def told(step: int, chances: Sequence[float], seed: int = 0) -> list[Trajectory]:
    """Ten groups of one rollout for each of c0, c1, ..., of questions that do not come again."""
    rng = random.Random(f"{seed} {step}")
    return [
        trajectory(candidate(who), question(1000 * step + 10 * who + number), reward)
        for who, chance in enumerate(chances)
        for number in range(10)
        for reward in [float(rng.random() < chance)]
    ]


def after(steps: int, chances: Sequence[float], **numbers: float) -> Probation:
    found = Probation(groups=int(numbers.get("groups", 40)), margin=numbers.get("margin", 0.0))
    found.begin([GOOD, BAD], PARENT)
    for step in range(1, steps + 1):
        found.observe(step, told(step, chances))
    return found


def test_it_is_known_to_be_one_that_admits_on_probation() -> None:
    assert isinstance(Probation(), SupportsProbation)
    assert isinstance(Probation(), Stateful)
    assert not Probation().on_probation()
    assert not Probation().lacking()


def test_it_decides_as_soon_as_everybody_has_its_groups() -> None:
    found = after(3, [0.5, 0.9, 0.1])
    assert found.on_probation() == ["c1", "c2"]
    assert found.lacking() == {"c0": 10, "c1": 10, "c2": 10}
    assert found.conclude(final=False) is None
    found.observe(4, told(4, [0.5, 0.9, 0.1]))
    ended = found.conclude(final=False)
    assert ended is not None
    assert {one.candidate.id: one.admitted for one in ended.results} == {"c1": True, "c2": False}
    assert [one.candidate.id for one in ended.parents] == ["c0"]
    assert "lead over its parent c0" in ended.results[1].reason
    assert [one.scored for one in (*ended.results, *ended.parents)] == [40, 40, 40]
    assert not found.on_probation()
    assert found.conclude(final=True) is None


def test_the_parents_old_record_does_not_count() -> None:
    found = Probation(groups=10)
    found.observe(1, [trajectory(PARENT, question(n), 1.0) for n in range(50)])
    found.begin([GOOD], PARENT)
    assert found.lacking() == {"c0": 10, "c1": 10}
    found.observe(2, told(2, [0.0, 1.0]))
    ended = found.conclude(final=False)
    assert ended is not None
    assert ended.parents[0].mean == 0.0
    assert ended.results[0].admitted


@pytest.mark.parametrize(
    ("margin", "kept"), [(-3.0, [True, True]), (0.0, [True, True]), (2.0, [False, False])]
)
def test_a_tie_is_kept_unless_it_must_be_shown_to_be_better(
    margin: float, kept: list[bool]
) -> None:
    found = Probation(groups=10, margin=margin)
    found.begin([GOOD, BAD], PARENT)
    found.observe(1, told(1, [1.0, 1.0, 1.0]))
    ended = found.conclude(final=False)
    assert ended is not None
    assert [one.admitted for one in ended.results] == kept


def test_the_last_digit_decides_nothing() -> None:
    found = Probation(groups=3)
    found.begin([GOOD, BAD], PARENT)
    sums = ([0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.2, 0.3, 0.1])
    told = [
        trajectory(candidate(who), question(10 * who + n), reward)
        for who, rewards in enumerate(sums)
        for n, reward in enumerate(rewards)
    ]
    found.observe(1, told)
    ended = found.conclude(final=False)
    assert ended is not None
    assert [one.admitted for one in ended.results] == [True, True]


def test_who_was_never_scored_is_turned_away_with_the_reason() -> None:
    found = Probation(groups=10)
    found.begin([GOOD, BAD], PARENT)
    lost = [trajectory(BAD, question(n), None) for n in range(10)]
    found.observe(1, told(1, [0.5, 1.0]) + lost)
    assert found.conclude(final=False) is None
    ended = found.conclude(final=True)
    assert ended is not None
    assert [one.admitted for one in ended.results] == [True, False]
    assert ended.results[1].reason == "no rollout of c2 was scored during its probation"


def test_it_is_no_worse_to_have_met_harder_questions() -> None:
    """Asked the same question, the child wins; but it was asked hard ones more often."""
    found = Probation(groups=20)
    found.begin([GOOD], PARENT)
    for step in range(1, 31):
        rewards = (
            [(PARENT, 1, 0.9)] * 3 + [(GOOD, 1, 1.0)] + [(PARENT, 2, 0.0)] + [(GOOD, 2, 0.1)] * 3
        )
        found.observe(
            step,
            [
                trajectory(who, question(10 * step + number), reward, index)
                for index, (who, number, reward) in enumerate(rewards)
            ],
        )
    ended = found.conclude(final=True)
    assert ended is not None
    own, bar = ended.results[0], ended.parents[0]
    assert own.mean is not None
    assert bar.mean is not None
    assert own.mean < bar.mean
    assert own.admitted


def test_a_saved_one_goes_on_as_it_would_have() -> None:
    whole, resumed = after(2, [0.5, 0.6, 0.4]), Probation(groups=40)
    resumed.load_state_dict(json.loads(json.dumps(whole.state_dict(), allow_nan=False)))
    assert resumed.on_probation() == whole.on_probation()
    for step in (3, 4):
        for one in (whole, resumed):
            one.observe(step, told(step, [0.5, 0.6, 0.4]))
        assert resumed.state_dict() == whole.state_dict()
    assert resumed.conclude(final=False) == whole.conclude(final=False)


def test_a_child_as_good_as_its_parent_is_shown_to_be_better_as_rarely_as_it_says() -> None:
    """1.645 standard errors: 5 % of 300; and a child better by 20 points is nearly always kept."""
    kept = {0.5: 0, 0.7: 0}
    for chance in kept:
        for seed in range(300):
            found = Probation(groups=80, margin=1.645)
            found.begin([GOOD], PARENT)
            for step in range(8):
                found.observe(step, told(step, [0.5, chance], seed))
            ended = found.conclude(final=False)
            assert ended is not None
            kept[chance] += ended.results[0].admitted
    assert 5 <= kept[0.5] <= 27  # binomial of .05, three standard deviations
    assert kept[0.7] >= 230  # .85: a lead of .2 with a standard error of .075


@pytest.mark.parametrize("groups", [0, -1])
def test_no_groups_are_refused(groups: int) -> None:
    with pytest.raises(ValueError, match=f"groups is {groups}; required: at least 1"):
        Probation(groups=groups)
