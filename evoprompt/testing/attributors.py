"""The conformance suite of attributors."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from evoprompt.roles import Attributor
from evoprompt.support.leads import ADMIT
from evoprompt.testing.samples import candidate, question, trajectory
from evoprompt.testing.suite import Suite, continue_from, expect, no_global_randomness
from evoprompt.types import CandidateStats, Trajectory

GOOD, BAD, UNUSED = candidate(0), candidate(1), candidate(2)


def told(step: int) -> list[Trajectory]:
    """What one step tells: GOOD is right three times of four, BAD once, one rollout fails."""
    return [
        trajectory(who, question(10 * step + number), reward)
        for who, rewards in ((GOOD, (1.0, 1.0, 0.0, 1.0)), (BAD, (0.0, 0.0, 1.0, 0.0, None)))
        for number, reward in enumerate(rewards)
    ]


def agree(one: CandidateStats, other: CandidateStats) -> bool:
    """Whether two candidates say the same up to rounding."""
    return (
        one.groups == other.groups
        and math.isclose(one.weight, other.weight, rel_tol=1e-9, abs_tol=1e-12)
        and math.isclose(one.stderr, other.stderr, rel_tol=1e-6, abs_tol=1e-9)
    )


class AttributorSuite(Suite[Attributor]):
    """What every attributor must keep, however it weighs rewards."""

    def after(self, *tellings: tuple[int, Sequence[Trajectory]]) -> Attributor:
        """A new attributor that observed trajectories at the given steps."""
        attributor = self.build()
        for step, trajectories in tellings:
            attributor.observe(step, trajectories)
        return attributor

    def same(self, one: Attributor, other: Attributor, otherwise: str) -> None:
        """Fails with ``otherwise`` unless both know the same of every candidate."""
        for who in (GOOD, BAD, UNUSED):
            left, right = one.stats(who), other.stats(who)
            expect(agree(left, right), f"{otherwise}: {left!r} against {right!r}")

    def test_knows_nothing_of_a_candidate_without_rollouts(self) -> None:
        stats = self.after((1, told(1))).stats(UNUSED)
        expect(
            stats.groups == 0,
            f"it claims {stats.groups} groups for a candidate without rollouts; required: 0",
        )
        expect(
            math.isfinite(stats.weight), f"the weight is {stats.weight}; required: a finite number"
        )

    def test_gives_finite_weights_with_an_uncertainty(self) -> None:
        attributor = self.after((1, told(1)), (2, told(2)))
        for who in (GOOD, BAD):
            stats = attributor.stats(who)
            expect(
                stats.candidate == who,
                f"asked for {who.id}, it answered {stats!r}; required: its own",
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
        attributor = self.after(*((step, told(step)) for step in range(1, 6)))
        good, bad = attributor.stats(GOOD).weight, attributor.stats(BAD).weight
        expect(
            good > bad,
            f"rewards of 3/4 weigh {good}, rewards of 1/4 weigh {bad}; required: more for more",
        )

    def test_leads_have_the_sign_of_the_difference(self) -> None:
        attributor = self.after(*((step, told(step)) for step in range(1, 11)))
        ahead, behind = attributor.lead(GOOD, BAD), attributor.lead(BAD, GOOD)
        known = attributor.has_standard_errors
        expect(
            ahead.value > 0 or not known,
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
            ahead.is_known or not known,
            f"after 40 questions the lead is {ahead}; required: a finite standard error above 0, "
            "or has_standard_errors = False, with which verification in training is refused",
        )

    def test_leads_over_itself_or_over_what_is_unknown_show_nothing(self) -> None:
        attributor = self.after(*((step, told(step)) for step in range(1, 11)))
        expect(
            attributor.lead(GOOD, GOOD).value == 0,
            f"a candidate leads itself by {attributor.lead(GOOD, GOOD)}; required: a value of 0",
        )
        for who, other in ((GOOD, GOOD), (GOOD, UNUSED), (UNUSED, GOOD), (UNUSED, UNUSED)):
            lead = attributor.lead(who, other)
            expect(
                lead.odds() < ADMIT,
                f"{who.id} is shown to lead {other.id} ({lead}), of which {UNUSED.id} had no "
                "rollout; required: an infinite standard error where nothing was measured",
            )

    def test_ignores_trajectories_without_a_reward(self) -> None:
        scored = [one for one in told(1) if one.reward is not None]
        self.same(
            self.after((1, told(1))),
            self.after((1, scored)),
            "a trajectory with reward None changed what is known; skip it in observe",
        )
        failed = [trajectory(UNUSED, question(1), None)]
        expect(
            self.after((1, failed)).stats(UNUSED).groups == 0,
            "a candidate whose only rollout failed counts as measured; required: 0 groups",
        )

    def test_does_not_depend_on_the_order_within_a_step(self) -> None:
        usual = told(1)
        for other in (usual[::-1], random.Random(0).sample(usual, len(usual))):
            self.same(
                self.after((1, usual)),
                self.after((1, other)),
                "the order of trajectories matters; sum up without regard to it, with math.fsum",
            )

    def test_does_not_depend_on_how_a_step_is_split(self) -> None:
        self.same(
            self.after((1, told(1))),
            self.after((1, told(1)[:3]), (1, []), (1, told(1)[3:])),
            "observing a step in parts differs from observing it at once; count an assignment "
            "of one step once, by its id",
        )

    def test_copes_with_rewards_that_tell_nothing_apart(self) -> None:
        for reward in (0.0, 1.0, -3.0, 0.1, 1e6):
            tellings = [
                (step, [trajectory(who, question(step), reward) for who in (GOOD, BAD)])
                for step in range(1, 5)
            ]
            attributor = self.after(*tellings)
            good, bad = attributor.stats(GOOD), attributor.stats(BAD)
            expect(
                all(math.isfinite(one.weight) and one.stderr >= 0 for one in (good, bad))
                and math.isclose(good.weight, bad.weight, rel_tol=1e-9, abs_tol=1e-9),
                f"all rewards are {reward}, it says {good!r} and {bad!r}; required: the same",
            )

    def test_draws_from_no_generator(self) -> None:
        with no_global_randomness():
            one = self.after((1, told(1)), (2, told(2)))
            other = self.after((1, told(1)), (2, told(2)))
            self.same(one, other, "observing the same twice, it knows something else")

    def test_starts_anew_when_reset(self) -> None:
        attributor = self.after((1, told(1)))
        attributor.reset({})
        self.same(
            attributor,
            self.build(),
            "something is left after a reset; forget everything, also what is not a reward",
        )

    def test_starts_from_the_rewards_of_a_reset(self) -> None:
        attributor = self.after((1, told(1)))
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

    def test_forgets_whom_it_is_told_to(self) -> None:
        attributor = self.after((1, told(1)))
        attributor.forget([BAD.id, "never-seen"])
        expect(
            attributor.stats(BAD).groups == 0,
            "it remembers a forgotten candidate; drop it in forget",
        )
        expect(
            attributor.stats(GOOD).groups > 0,
            "it forgot a candidate that is still alive; drop only those named",
        )

    def test_continues_from_a_saved_state(self) -> None:
        attributor = self.after((1, told(1)), (2, told(2)))
        resumed = self.build()
        continue_from(attributor, resumed)
        self.same(
            attributor,
            resumed,
            "a restored attributor knows something else; keep it all in state_dict",
        )
        for one in (attributor, resumed):
            one.observe(3, told(3))
        self.same(
            attributor,
            resumed,
            "a restored attributor goes on differently; keep it all in state_dict",
        )
