"""Conformance suite of verifiers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

from evoprompt.replay import ReplayBuffer
from evoprompt.roles import TrainingScale, VerificationRequest, Verifier
from evoprompt.testing.fakes import ScriptedEstimator, ScriptedPolicy
from evoprompt.testing.samples import candidate, candidate_stats, question, trajectory
from evoprompt.testing.suite import DrawingSuite, expect
from evoprompt.types import Assignment, Candidate, Verification, VerificationResult

PROPOSED = [candidate(number, ["c0"]) for number in range(4, 8)]
QUALITY = {"c0": 0.25, "c4": 0.5, "c5": 1.0, "c6": 0.0, "c7": 0.75}
QUESTIONS = [question(number) for number in range(24)]
INCUMBENT = candidate(0)
SCALE = TrainingScale(questions=16, rollouts=5, candidates=5, mean_reward=0.3)


def by_quality(assignment: Assignment) -> float:
    """Return 1.0 on as large a share of the questions as the candidate's quality, else 0.0."""
    index = QUESTIONS.index(assignment.question) % 4
    return float(index < 4 * QUALITY[assignment.candidate.id])


def filled_replay() -> ReplayBuffer:
    """Return a buffer that contains all of QUESTIONS once, half of them failed."""
    replay = ReplayBuffer()
    seen = [
        trajectory(candidate(0), addition, float(number % 2))
        for number, addition in enumerate(QUESTIONS)
    ]
    replay.add(1, seen)
    return replay


def verification_request(
    policy: ScriptedPolicy,
    slots: int = 2,
    proposed: Sequence[Candidate] = PROPOSED,
    replay: ReplayBuffer | None = None,
    seed: int = 0,
) -> VerificationRequest:
    """Return a request to verify ``proposed``, whose only parent has the quality 0.25."""
    replay = filled_replay() if replay is None else replay
    parents = candidate_stats([0.25])
    return VerificationRequest(
        proposed,
        parents,
        replay,
        policy,
        slots,
        random.Random(seed),
        estimator=ScriptedEstimator({INCUMBENT.id: 0.25}, 0.02),
        incumbent=INCUMBENT,
        scale=SCALE,
    )


def after_training(
    leads: Sequence[float],
    scored: int,
    stderr: float = 0.02,
    slots: int = 2,
    incumbent: Candidate = INCUMBENT,
) -> VerificationRequest:
    """Return a request after a training step, without extra rollouts.

    Args:
        leads: of c4, c5, ..., which are on trial, over c0.
        scored: rewards of each of them so far; their leads are unknown without any.
        stderr: standard error of the leads.
        slots: free places.
        incumbent: the best candidate so far.
    """
    weights = {INCUMBENT.id: 0.25}
    if scored:
        weights |= {f"c{number}": 0.25 + lead for number, lead in enumerate(leads, 4)}
    trials = [
        VerificationResult(proposed, weights[proposed.id] if scored else None, None, scored)
        for proposed in PROPOSED[: len(leads)]
    ]
    return VerificationRequest(
        [trial.candidate for trial in trials],
        candidate_stats([0.25]),
        filled_replay(),
        None,
        slots,
        random.Random(0),
        estimator=ScriptedEstimator(weights, stderr),
        incumbent=incumbent,
        trials=trials,
        scale=SCALE,
    )


class VerifierSuite(DrawingSuite[Verifier]):
    """Contract of every verifier, for any demands on a candidate.

    A verifier with a ``share`` is also called after training steps, without a rollout function,
    about candidates on trial. All other verifiers have to decide immediately.
    """

    def verify(
        self,
        policy: ScriptedPolicy,
        slots: int = 2,
        proposed: Sequence[Candidate] = PROPOSED,
        replay: ReplayBuffer | None = None,
    ) -> Verification:
        """Return the verification of a new verifier; the only parent has the quality 0.25.

        Args:
            policy: rollout function.
            slots: free places.
            proposed: proposed candidates.
            replay: questions to verify on; by default a filled buffer.
        """
        return self.build().verify(verification_request(policy, slots, proposed, replay))

    def answer(self, component: Verifier, seed: int) -> object:
        """Return the questions and decisions of ``component``."""
        policy = ScriptedPolicy(by_quality)
        verification = component.verify(verification_request(policy, seed=seed))
        questions = [
            (assignment.candidate.id, assignment.question.id) for assignment in policy.assignments
        ]
        decisions: list[tuple[str, str]] = [
            (result.candidate.id, result.decision) for result in verification.results
        ]
        if component.share:
            decisions += self.decide(component, after_training([0.4, -0.4, 0.01], 200))
        return questions, decisions

    def decide(self, component: Verifier, request: VerificationRequest) -> list[tuple[str, str]]:
        """Return the decisions about the candidates of ``request``, by their ids."""
        verification = component.verify(request)
        return sorted((result.candidate.id, result.decision) for result in verification.results)

    def admitted(self, reward: Callable[[Assignment], float | None], slots: int = 2) -> list[str]:
        """Return the ids of the candidates admitted under a policy with these rewards."""
        verification = self.verify(ScriptedPolicy(reward), slots)
        return [result.candidate.id for result in verification.results if result.is_admitted]

    def test_gives_one_result_per_proposed_candidate(self) -> None:
        verification = self.verify(ScriptedPolicy(by_quality))
        judged_ids = sorted(result.candidate.id for result in verification.results)
        expect(
            judged_ids == ["c4", "c5", "c6", "c7"],
            f"of c4 to c7 it judged {judged_ids}; required: one result each",
        )
        verification = self.verify(ScriptedPolicy(by_quality), proposed=[])
        expect(
            verification.results == (),
            f"none was proposed, it judged {verification.results}; required: ()",
        )

    def test_decides_immediately_or_has_a_share_of_the_training(self) -> None:
        share = self.build().share
        expect(0 <= share < 1, f"its share is {share}; required: 0, or a number below 1")
        on_trial = [
            result.candidate.id
            for result in self.verify(ScriptedPolicy(by_quality)).results
            if result.is_on_trial
        ]
        expect(
            share > 0 or not on_trial,
            f"it left {on_trial} on trial and its share is 0, so that they would never have a "
            "rollout; decide about each, or set share",
        )

    def test_gives_one_result_per_candidate_on_trial(self) -> None:
        if self.build().share:
            for leads in ([], [0.3], [0.3, -0.3, 0.0, 0.0]):
                decisions = self.decide(self.build(), after_training(leads, 200))
                names = [name for name, _ in decisions]
                required = [proposed.id for proposed in PROPOSED[: len(leads)]]
                expect(
                    names == required,
                    f"of {required}, on trial, it judged {names}; required: one result each",
                )

    def test_leaves_candidates_without_a_rollout_on_trial(self) -> None:
        if self.build().share:
            decisions = self.decide(self.build(), after_training([0.3, -0.3], 0))
            expect(
                {decision for _, decision in decisions} == {"on trial"},
                f"nothing is known of c4 and c5 and it decided {decisions}; required: 'on trial'",
            )

    def test_admits_a_clear_lead_after_training_and_rejects_a_clear_lag(self) -> None:
        if self.build().share:
            decisions = dict(self.decide(self.build(), after_training([0.5, -0.5], 2_000)))
            for name, required, side in (("c4", "admitted", "ahead"), ("c5", "rejected", "behind")):
                expect(
                    decisions[name] == required,
                    f"after 2000 rollouts {name} is .5 ± .02 {side} and it is {decisions[name]}; "
                    f"required: {required}",
                )

    def test_admits_at_most_as_many_as_there_are_places_after_training(self) -> None:
        if self.build().share:
            for slots in (0, 1, 2):
                request = after_training([0.2, 0.4, 0.6, 0.8], 2_000, slots=slots)
                decisions = self.decide(self.build(), request)
                admitted = [name for name, decision in decisions if decision == "admitted"]
                expect(
                    len(admitted) <= slots,
                    f"{slots} places were free, it admitted {admitted}; required: no more",
                )

    def test_admits_at_most_as_many_as_there_are_places(self) -> None:
        for slots in (0, 1, 2, 9):
            count = len(self.admitted(by_quality, slots))
            expect(
                count <= slots,
                f"{slots} places were free, it admitted {count}; required: no more",
            )

    def test_admits_a_candidate_that_is_always_right(self) -> None:
        expect(
            self.build().share > 0 or "c5" in self.admitted(by_quality),
            "it refused a candidate that never failed, where two places were free",
        )

    def test_admits_the_best_of_those_it_measured(self) -> None:
        for result in self.verify(ScriptedPolicy(by_quality), slots=1).results:
            if result.is_admitted and result.scored:
                admitted_id = result.candidate.id
                expect(
                    admitted_id == "c5",
                    f"c5 is the best of those it measured and it admitted {admitted_id} instead",
                )

    def test_lists_the_best_first(self) -> None:
        means = [
            result.mean
            for result in self.verify(ScriptedPolicy(by_quality)).results
            if result.mean is not None
        ]
        expect(
            means == sorted(means, reverse=True),
            f"the means are {means}; required: falling; sort the results",
        )

    def test_measures_the_rewards_without_rollouts_that_failed(self) -> None:
        def sometimes(assignment: Assignment) -> float | None:
            index = QUESTIONS.index(assignment.question)
            return None if index % 3 == 0 else by_quality(assignment)

        for policy in (ScriptedPolicy(by_quality), ScriptedPolicy(sometimes)):
            verification = self.verify(policy)
            for result in (*verification.results, *verification.parents):
                rewards = [
                    trajectory.reward
                    for trajectory in policy.trajectories
                    if trajectory.candidate.id == result.candidate.id
                    and trajectory.reward is not None
                ]
                agrees = (
                    not rewards
                    if result.mean is None
                    else math.isclose(result.mean, math.fsum(rewards) / max(1, len(rewards)))
                )
                expect(
                    result.scored == len(rewards) and agrees,
                    f"it says {result!r} where the rewards are {rewards}; required: their number "
                    "and mean without reward None, None where there are none; "
                    "evoprompt.verifiers.measured gives that",
                )

    def test_admits_no_candidate_without_a_reward(self) -> None:
        policy = ScriptedPolicy(lambda assignment: None)
        verification = self.verify(policy)
        tried_ids = {assignment.candidate.id for assignment in policy.assignments}
        admitted = [result.candidate.id for result in verification.results if result.is_admitted]
        expect(
            tried_ids.isdisjoint(admitted),
            f"no rollout of {sorted(tried_ids)} had a reward, it admitted {admitted}; "
            "required: none without a mean",
        )

    def test_reports_every_rollout_it_spent_and_no_more_than_announced(self) -> None:
        policy = ScriptedPolicy(by_quality)
        verification = self.verify(policy)
        num_spent = len(policy.trajectories)
        expect(
            len(verification.trajectories) == num_spent,
            f"it spent {num_spent} rollouts and reports {len(verification.trajectories)}; "
            "required: all that request.rollout returned, in Verification.trajectories",
        )
        max_rollouts = self.build().most_rollouts(len(PROPOSED), 1)
        expect(
            max_rollouts is None or num_spent <= max_rollouts,
            f"it says at most {max_rollouts} rollouts and spent {num_spent}; correct most_rollouts",
        )

    def test_rolls_out_only_the_given_candidates_and_questions(self) -> None:
        policy = ScriptedPolicy(by_quality)
        self.verify(policy)
        given_ids = {"c0", *(proposed.id for proposed in PROPOSED)}
        names = [assignment.id for assignment in policy.assignments]
        expect(
            len(set(names)) == len(names),
            "two assignments share an id; required: different ones; see verification_of",
        )
        for assignment in policy.assignments:
            expect(
                assignment.candidate.id in given_ids
                and assignment.question in QUESTIONS
                and assignment.purpose == "verify",
                f"it asked for {assignment!r}; required: proposed candidates and parents on "
                "questions of the replay buffer, with the purpose 'verify'",
            )
