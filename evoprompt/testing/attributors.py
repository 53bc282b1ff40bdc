"""Conformance suite of attributors."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from evoprompt.roles import Attributor
from evoprompt.support.leads import LEAD_ODDS
from evoprompt.testing.samples import candidate, question, trajectory
from evoprompt.testing.suite import Suite, continue_from, expect, no_global_randomness
from evoprompt.types import CandidateStats, Trajectory

GOOD, BAD, UNUSED = candidate(0), candidate(1), candidate(2)

NUM_TRAININGS = 20
"""Trainings whose differences between equal candidates are compared with the standard errors."""
MAX_ERROR = 3.0
"""Root mean square of a difference in standard errors; about 1, and 1.5 where errors are those of
the difference from a mean."""


def step_trajectories(step: int) -> list[Trajectory]:
    """Return the trajectories of one step.

    GOOD is right in three of four rollouts, BAD in one; one rollout fails.
    """
    return [
        trajectory(scored_candidate, question(10 * step + number), reward)
        for scored_candidate, rewards in (
            (GOOD, (1.0, 1.0, 0.0, 1.0)),
            (BAD, (0.0, 0.0, 1.0, 0.0, None)),
        )
        for number, reward in enumerate(rewards)
    ]


def equal_candidates(rng: random.Random) -> list[tuple[int, list[Trajectory]]]:
    """Return the steps of a training in which GOOD and BAD are right in half of the rollouts."""
    return [
        (
            step,
            [
                trajectory(member, question(8 * step + number), float(rng.random() < 0.5))
                for number in range(8)
                for member in (GOOD, BAD)
            ],
        )
        for step in range(1, 6)
    ]


def agree(stats: CandidateStats, other: CandidateStats) -> bool:
    """Return whether the stats of two candidates are equal up to rounding."""
    return (
        stats.groups == other.groups
        and math.isclose(stats.weight, other.weight, rel_tol=1e-9, abs_tol=1e-12)
        and math.isclose(stats.stderr, other.stderr, rel_tol=1e-6, abs_tol=1e-9)
    )


class AttributorSuite(Suite[Attributor]):
    """Contract of every attributor, for any weighing of rewards."""

    def after(self, *tellings: tuple[int, Sequence[Trajectory]]) -> Attributor:
        """Return a new attributor that observed trajectories at the given steps."""
        attributor = self.build()
        for step, trajectories in tellings:
            attributor.observe(step, trajectories)
        return attributor

    def require_equal_stats(
        self, attributor: Attributor, other: Attributor, otherwise: str
    ) -> None:
        """Fail with ``otherwise`` unless both have the same stats of every candidate."""
        for member in (GOOD, BAD, UNUSED):
            stats, other_stats = attributor.stats(member), other.stats(member)
            expect(agree(stats, other_stats), f"{otherwise}: {stats!r} against {other_stats!r}")

    def test_knows_nothing_of_a_candidate_without_rollouts(self) -> None:
        stats = self.after((1, step_trajectories(1))).stats(UNUSED)
        expect(
            stats.groups == 0,
            f"it claims {stats.groups} groups for a candidate without rollouts; required: 0",
        )
        expect(
            math.isfinite(stats.weight), f"the weight is {stats.weight}; required: a finite number"
        )

    def test_gives_finite_weights_with_an_uncertainty(self) -> None:
        attributor = self.after((1, step_trajectories(1)), (2, step_trajectories(2)))
        for member in (GOOD, BAD):
            stats = attributor.stats(member)
            expect(
                stats.candidate == member,
                f"asked for {member.id}, it answered {stats!r}; required: its own",
            )
            expect(
                math.isfinite(stats.weight),
                f"the weight is {stats.weight}; required: a finite number",
            )
            expect(
                stats.stderr >= 0,
                f"the standard error is {stats.stderr}; required: at least 0, math.inf if unknown",
            )
            expect(
                stats.groups > 0,
                "it counts no group for a candidate with rewards; required: one an assignment",
            )

    def test_prefers_the_higher_reward(self) -> None:
        attributor = self.after(*((step, step_trajectories(step)) for step in range(1, 6)))
        good, bad = attributor.stats(GOOD).weight, attributor.stats(BAD).weight
        expect(
            good > bad,
            f"rewards of 3/4 weigh {good}, rewards of 1/4 weigh {bad}; required: more for more",
        )

    def test_leads_have_the_sign_of_the_difference(self) -> None:
        attributor = self.after(*((step, step_trajectories(step)) for step in range(1, 11)))
        ahead, behind = attributor.lead(GOOD, BAD), attributor.lead(BAD, GOOD)
        has_errors = attributor.has_standard_errors
        expect(
            ahead.value > 0 or not has_errors,
            f"after 40 questions rewards of 3/4 lead rewards of 1/4 by {ahead}; required: a value "
            "above 0, as the weights say",
        )
        expect(
            math.isclose(ahead.value, -behind.value, rel_tol=1e-6, abs_tol=1e-9)
            and math.isclose(ahead.stderr, behind.stderr, rel_tol=1e-6, abs_tol=1e-9),
            f"GOOD leads BAD by {ahead}, BAD leads GOOD by {behind}; required: the same with the "
            "other sign",
        )
        expect(
            ahead.is_known or not has_errors,
            f"after 40 questions the lead is {ahead}; required: a finite standard error above 0, "
            "or has_standard_errors = False, with which verification in training is refused",
        )

    def test_counts_an_assignment_once(self) -> None:
        rollouts = [
            trajectory(member, question(number), float(rollout), rollout)
            for member in (GOOD, BAD)
            for number in range(4)
            for rollout in range(2)
        ]
        for member in (GOOD, BAD):
            groups = self.after((1, rollouts)).stats(member).groups
            expect(
                groups == 4,
                f"it counts {groups} groups for 4 assignments of 2 rollouts in one step; required: "
                "one for each assignment, however many rollouts it has",
            )

    def test_has_standard_errors_of_the_size_of_its_errors(self) -> None:
        if not self.build().has_standard_errors:
            return
        weight_errors: list[float] = []
        lead_errors: list[float] = []
        for seed in range(NUM_TRAININGS):
            attributor = self.after(*equal_candidates(random.Random(seed)))
            good, bad = attributor.stats(GOOD), attributor.stats(BAD)
            weight_error = math.hypot(good.stderr, bad.stderr)
            if 0 < weight_error < math.inf:
                weight_errors.append((good.weight - bad.weight) / weight_error)
            lead = attributor.lead(GOOD, BAD)
            if lead.is_known:
                lead_errors.append(lead.value / lead.stderr)
        for name, errors in (("weights", weight_errors), ("leads", lead_errors)):
            size = math.sqrt(math.fsum(error**2 for error in errors) / max(len(errors), 1))
            expect(
                size <= MAX_ERROR,
                f"in {len(errors)} trainings with two equal candidates, differences between their "
                f"{name} are {size:.1f} standard errors (root mean square); required: about 1, at "
                f"most {MAX_ERROR:g}; divide by the number of groups, not of what they hold",
            )

    def test_leads_over_itself_or_over_what_is_unknown_show_nothing(self) -> None:
        attributor = self.after(*((step, step_trajectories(step)) for step in range(1, 11)))
        expect(
            attributor.lead(GOOD, GOOD).value == 0,
            f"a candidate leads itself by {attributor.lead(GOOD, GOOD)}; required: a value of 0",
        )
        for leader, other in ((GOOD, GOOD), (GOOD, UNUSED), (UNUSED, GOOD), (UNUSED, UNUSED)):
            lead = attributor.lead(leader, other)
            expect(
                lead.odds() < LEAD_ODDS,
                f"{leader.id} is shown to lead {other.id} ({lead}), of which {UNUSED.id} had no "
                "rollout; required: an infinite standard error where nothing was measured",
            )

    def test_ignores_trajectories_without_a_reward(self) -> None:
        scored = [t for t in step_trajectories(1) if t.reward is not None]
        self.require_equal_stats(
            self.after((1, step_trajectories(1))),
            self.after((1, scored)),
            "a trajectory with reward None changed what is known; skip it in observe",
        )
        failed = [trajectory(UNUSED, question(1), None)]
        expect(
            self.after((1, failed)).stats(UNUSED).groups == 0,
            "a candidate whose only rollout failed counts as measured; required: 0 groups",
        )

    def test_does_not_depend_on_the_order_within_a_step(self) -> None:
        usual = step_trajectories(1)
        for other in (usual[::-1], random.Random(0).sample(usual, len(usual))):
            self.require_equal_stats(
                self.after((1, usual)),
                self.after((1, other)),
                "the order of trajectories matters; sum up without regard to it, with math.fsum",
            )

    def test_does_not_depend_on_how_a_step_is_split(self) -> None:
        self.require_equal_stats(
            self.after((1, step_trajectories(1))),
            self.after((1, step_trajectories(1)[:3]), (1, []), (1, step_trajectories(1)[3:])),
            "observing a step in parts differs from observing it at once; count an assignment "
            "of one step once, by its id",
        )

    def test_copes_with_rewards_without_information(self) -> None:
        for reward in (0.0, 1.0, -3.0, 0.1, 1e6):
            tellings = [
                (step, [trajectory(member, question(step), reward) for member in (GOOD, BAD)])
                for step in range(1, 5)
            ]
            attributor = self.after(*tellings)
            good, bad = attributor.stats(GOOD), attributor.stats(BAD)
            expect(
                all(math.isfinite(stats.weight) and stats.stderr >= 0 for stats in (good, bad))
                and math.isclose(good.weight, bad.weight, rel_tol=1e-9, abs_tol=1e-9),
                f"all rewards are {reward}, it says {good!r} and {bad!r}; required: the same",
            )

    def test_draws_from_no_generator(self) -> None:
        with no_global_randomness():
            attributor = self.after((1, step_trajectories(1)), (2, step_trajectories(2)))
            other = self.after((1, step_trajectories(1)), (2, step_trajectories(2)))
            self.require_equal_stats(
                attributor, other, "observing the same twice, it knows something else"
            )

    def test_starts_anew_when_reset(self) -> None:
        attributor = self.after((1, step_trajectories(1)))
        attributor.reset({})
        self.require_equal_stats(
            attributor,
            self.build(),
            "something is left after a reset; forget everything, also what is not a reward",
        )

    def test_starts_from_the_rewards_of_a_reset(self) -> None:
        attributor = self.after((1, step_trajectories(1)))
        attributor.reset({BAD.id: [1.0, 1.0, 1.0], GOOD.id: [0.0, 0.0, 0.0]})
        good, bad = attributor.stats(GOOD), attributor.stats(BAD)
        expect(
            good.groups > 0 and bad.groups > 0,
            "the rewards of a reset do not count; start each named candidate from its rewards",
        )
        expect(
            bad.weight > good.weight,
            f"after a reset, rewards of 1 weigh {bad.weight} and rewards of 0 weigh {good.weight}",
        )

    def test_forgets_the_named_candidates(self) -> None:
        attributor = self.after((1, step_trajectories(1)))
        attributor.forget([BAD.id, "never-seen"])
        expect(
            attributor.stats(BAD).groups == 0,
            "it remembers a forgotten candidate; drop it in forget",
        )
        expect(
            attributor.stats(GOOD).groups > 0,
            "it forgot a candidate that was not named; drop only the named ones",
        )

    def test_continues_from_a_saved_state(self) -> None:
        attributor = self.after((1, step_trajectories(1)), (2, step_trajectories(2)))
        resumed = self.build()
        continue_from(attributor, resumed)
        self.require_equal_stats(
            attributor,
            resumed,
            "a restored attributor knows something else; keep it all in state_dict",
        )
        for observer in (attributor, resumed):
            observer.observe(3, step_trajectories(3))
        self.require_equal_stats(
            attributor,
            resumed,
            "a restored attributor goes on differently; keep it all in state_dict",
        )
