"""The verifiers that ship with evoprompt, and the extra rollouts of a verification."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pydantic import BaseModel, Field

from evoprompt.roles import RolloutFn, TrainingScale, VerificationRequest, Verifier
from evoprompt.support.failures import EMPTY, FailureCount
from evoprompt.support.leads import LEAD_ODDS, TRIAL_ODDS, USEFUL, Lead, Verdict
from evoprompt.support.waiting import monitor
from evoprompt.types import (
    ADMITTED,
    REJECTED,
    Assignment,
    Candidate,
    Decision,
    Question,
    Trajectory,
    Verification,
    VerificationResult,
)

__all__ = [
    "NO_PLACE",
    "InTraining",
    "ReplayTopN",
    "RolloutsSpentError",
    "Unverified",
    "VerificationRollouts",
    "measured",
    "verification_of",
]

NO_PLACE = "no free place was left in the population"
"""Why somebody who did well enough is not admitted."""


def verification_of(
    candidate: Candidate, question: Question, index: int, rollouts: int = 1
) -> Assignment:
    """``candidate`` on the ``index``-th question of a round."""
    identity = f"{candidate.id}/{index}"
    return Assignment(identity, question, candidate, rollouts, identity, "verify")


def measured(candidate: Candidate, trajectories: Sequence[Trajectory]) -> VerificationResult:
    """Return the mean reward and standard error of a candidate, with the decision *rejected*."""
    rewards = [
        trajectory.reward
        for trajectory in trajectories
        if trajectory.candidate.id == candidate.id and trajectory.reward is not None
    ]
    scored = len(rewards)
    if not scored:
        return VerificationResult(candidate, None, None, 0, REJECTED)
    mean = math.fsum(rewards) / scored
    spread = math.fsum((reward - mean) ** 2 for reward in rewards)
    stderr = math.sqrt(spread / (scored - 1) / scored) if scored > 1 else None
    return VerificationResult(candidate, mean, stderr, scored, REJECTED)


def _by_mean(result: VerificationResult) -> float:
    return -math.inf if result.mean is None else result.mean


class ReplayTopN(Verifier):
    """Verifier by extra rollouts on questions of the replay buffer (paper section 3.2).

    The candidates with the highest mean rewards are admitted. Every candidate of a round is rolled
    out once on the same questions under the current policy; if the trainer rewards whole groups, it
    is a group of rollouts on accordingly fewer questions. At most half of the candidates are
    admitted: a verification that rejects none decides nothing. A single candidate must not be worse
    than the best parent.

    Args:
        questions: ``|D_B|``, questions per round; fewer if the buffer holds fewer.
        accept: ``"top"`` admits the best of the round (paper). ``"not-worse"`` rolls the parents
            out on the same questions too and admits only candidates whose mean is at least the
            best parent's.
    """

    class Settings(BaseModel, extra="forbid"):
        """Settings in a configuration."""

        questions: int = Field(200, ge=1, description="|D_B|, questions per round")
        accept: Literal["top", "not-worse"] = Field(
            "not-worse",
            description="the best of the round, or only those not worse than a parent",
        )

    def __init__(
        self, questions: int = 200, accept: Literal["top", "not-worse"] = "not-worse"
    ) -> None:
        if questions < 1:
            raise ValueError(f"questions is {questions}; required: at least 1")
        self.questions = questions
        self.accept = accept

    def most_rollouts(self, proposed: int, parents: int) -> int:
        """Return the rollouts of a round with all its questions."""
        compared = self.accept == "not-worse" or proposed == 1
        return self.questions * (proposed + (parents if compared else 0))

    def _affordable(self, candidates: int, max_rollouts: int | None) -> int:
        """Return the number of questions for each candidate within ``max_rollouts``."""
        if max_rollouts is None:
            return self.questions
        max_questions = max_rollouts // max(candidates, 1)
        return min(self.questions, max(max_questions, MIN_VERIFICATION))

    def verify(self, request: VerificationRequest) -> Verification:
        """Return one result per candidate, best first, at most half of them admitted."""
        num_tried = len(request.proposed)
        contested = self.accept == "top" and num_tried > 1
        compared = [] if contested else [parent.candidate for parent in request.parents]
        if request.rollout is None:
            raise ValueError(
                "there is no rollout function; required: one, as it leaves none on trial"
            )
        count = self._affordable(len(compared) + num_tried, request.max_rollouts)
        questions = request.replay.questions(max(count // request.group, 1), request.rng)
        trajectories = request.rollout(
            [
                verification_of(candidate, question, index, request.group)
                for candidate in (*compared, *request.proposed)
                for index, question in enumerate(questions)
            ]
        )
        bars = [measured(candidate, trajectories) for candidate in compared]
        bar = max((bar.mean for bar in bars if bar.mean is not None), default=-math.inf)
        ranked = sorted(
            (measured(candidate, trajectories) for candidate in request.proposed),
            key=_by_mean,
            reverse=True,
        )
        half = num_tried // 2 or int(bar > -math.inf)
        free_slots = min(request.slots, half)
        full = NO_PLACE if free_slots == request.slots else _at_most(half, num_tried)
        results: list[VerificationResult] = []
        for result in ranked:
            reason = _reason_against(result, bar, "" if free_slots else full)
            free_slots -= not reason
            decision: Decision = REJECTED if reason else ADMITTED
            results.append(replace(result, decision=decision, reason=reason))
        notice = ""
        if count < self.questions:
            notice = (
                f"each candidate was verified by {count} rollouts and not by {self.questions}: "
                "verification takes a fifth of the training rollouts at most; train on more "
                "questions a step, or evolve less often (evolve_every)"
            )
        return Verification(tuple(results), tuple(bars), tuple(trajectories), notice)


MIN_VERIFICATION = 10  # questions: fewer decide nothing, whatever they cost


def _at_most(half: int, num_tried: int) -> str:
    if not half:
        return "it was tried alone, and no rollout of a parent could be scored"
    return f"of {num_tried} candidates at most {half} are admitted, and others did no worse"


def _reason_against(result: VerificationResult, bar: float, otherwise: str) -> str:
    if result.mean is None:
        return "no rollout of it could be scored"
    if result.mean < bar:
        return f"mean reward {result.mean:.3f} is below the best parent's {bar:.3f}"
    return otherwise


class Unverified(Verifier):
    """Admits proposals as they come, without a rollout (ablation).

    The first are admitted: the paper's ablation without verification.
    """

    def most_rollouts(self, proposed: int, parents: int) -> int:
        """None are needed."""
        return 0

    def verify(self, request: VerificationRequest) -> Verification:
        """Return one result per candidate; the first ``slots`` are admitted unmeasured."""
        return Verification(
            tuple(
                VerificationResult(
                    candidate, None, None, 0, REJECTED if reason else ADMITTED, reason
                )
                for index, candidate in enumerate(request.proposed)
                for reason in ["" if index < request.slots else NO_PLACE]
            )
        )


_MANY_QUESTIONS = 64
"""Questions of a step from which more proposals are tried together: 22.4 and 23.5 points at 512."""
_PROPOSALS = (6, 12)  # tried together, below that and from there on
_LARGE_STEP = 512
"""Questions of a step at which a step is the smallest look, and a large one."""
_WORTHWHILE_LEAD = (0.05, 0.03)
"""Lead that is waited for, as a share of the range of rewards, below a large step and from there on
(the best of .01 to .05 in whole runs, simulated: docs/selection.md)."""
_HIGH = 0.5
"""Share of the range of rewards from which the leads that are waited for shrink."""
_LEAST_ROOM = 0.1  # of the range: how far they shrink
_MAX_ROLLOUTS = 4.0
"""Over the square of the lead that is waited for: rollouts after which an undecided candidate is
rejected; nine of ten are decided after 1.4."""


class InTraining(Verifier):
    """Verifier in training: candidates share ordinary training steps with the incumbent.

    There are no extra rollouts: candidates on trial have a share of each question's rollouts, the
    policy is trained on these as well, and the attributor compares them with the incumbent.
    After each step a candidate is admitted that is better at odds of 2 : 1, one is rejected that is
    at such odds without a lead worth waiting for, and the other candidates stay on trial
    (:meth:`evoprompt.support.leads.Lead.verdict`). Of several that are better, the one with the
    greatest lead is admitted and becomes the incumbent, and the other candidates are compared with
    it.

    Where a question has one candidate, candidates on trial have questions of their own, which are
    compared through the mean of the step. That takes some four times the rollouts for a decision,
    and a candidate joins at 5 : 1: with 2 : 1, five times as many worse ones join and whole runs
    gain less. Extra rollouts on shared questions decide sooner, but the policy
    learns nothing from them (docs/selection.md).

    Args:
        share: largest share of a question's rollouts for candidates on trial, in (0, 1).
    """

    class Settings(BaseModel, extra="forbid"):
        """Settings in a configuration."""

        share: float = Field(
            0.6, gt=0, lt=1, description="share of the rollouts for candidates on trial"
        )

    def __init__(self, share: float = 0.6) -> None:
        if not 0 < share < 1:
            raise ValueError(f"share is {share}; required: between 0 and 1")
        self.share = share

    def most_rollouts(self, proposed: int, parents: int) -> int:
        """Return 0: no rollout is made for it."""
        return 0

    def proposals(self, free_places: int, rounds: int, scale: TrainingScale) -> int:
        """Return 6, and 12 in steps of 64 questions or more.

        In a step with fewer places for candidates on trial there are as many proposals as places,
        at least 2: else a decision would take dozens of steps.
        """
        free_places = int(self.share * scale.questions * scale.candidates)
        max_proposals = _PROPOSALS[scale.questions >= _MANY_QUESTIONS]
        return min(max_proposals, max(free_places, 2)) if scale.questions else max_proposals

    def max_trial_rollouts(self, scale: TrainingScale) -> int:
        """Return four over the square of the lead that is waited for: 1,600, or 4,444."""
        return round(_MAX_ROLLOUTS / self._worthwhile_share(scale) ** 2)

    def verify(self, request: VerificationRequest) -> Verification:
        """Return a decision for each candidate as soon as the training shows it.

        Raises:
            ValueError: the request has no estimator or no incumbent to compare with.
        """
        if request.estimator is None or request.incumbent is None:
            raise ValueError("there is no estimator or no incumbent; required: both")
        known_results = {result.candidate.id: result for result in request.trials}
        results = [
            known_results.get(candidate.id, VerificationResult(candidate, None, None, 0))
            for candidate in request.proposed
        ]
        trials = {result.candidate.id: result for result in results}
        incumbent, decided = request.incumbent, dict[str, VerificationResult]()
        for _ in range(request.slots):
            leads = {name: self._lead(trials[name], incumbent, request) for name in trials}
            better = [name for name in trials if self._verdict(leads[name], request) == "better"]
            if not better:
                break
            winner = max(better, key=lambda name: leads[name].value)
            result = trials.pop(winner)
            decided[winner] = replace(result, decision=ADMITTED)
            incumbent = result.candidate
        for name, result in trials.items():
            if reason := self._reason_against(result, incumbent, request):
                decided[name] = replace(result, decision=REJECTED, reason=reason)
        undecided = [result for result in results if result.candidate.id not in decided]
        return Verification((*decided.values(), *undecided))

    def _reason_against(
        self, result: VerificationResult, incumbent: Candidate, request: VerificationRequest
    ) -> str:
        """Return why a candidate is rejected; empty while it is undecided."""
        lead = self._lead(result, incumbent, request)
        if self._verdict(lead, request) != "drop":
            return ""
        side = "behind" if lead.value < 0 else "ahead of"
        standing = f"{abs(lead.value):.3f} {side} {incumbent.id} after {result.scored} rollouts"
        return f"{standing}; unlikely to be {self.worthwhile_lead(request.scale):.3f} ahead"

    def _lead(
        self, result: VerificationResult, incumbent: Candidate, request: VerificationRequest
    ) -> Lead:
        assert request.estimator is not None
        lead = request.estimator.lead(result.candidate, incumbent)
        if lead.stderr > 0:
            return lead
        # Nothing but ties: as if one question had told them apart by the whole range of rewards.
        low, high = request.scale.rewards
        return Lead(lead.value, (high - low) / max(result.scored, 1))

    def _verdict(self, lead: Lead, request: VerificationRequest) -> Verdict:
        low, high = request.scale.rewards
        return lead.verdict(
            self.worthwhile_lead(request.scale),
            useful=USEFUL * (high - low),
            odds=TRIAL_ODDS if request.scale.candidates > 1 else LEAD_ODDS,
        )

    def _worthwhile_share(self, scale: TrainingScale) -> float:
        return _WORTHWHILE_LEAD[scale.questions >= _LARGE_STEP]

    def worthwhile_lead(self, scale: TrainingScale) -> float:
        """Return the lead that is waited for, in units of the rewards.

        It shrinks near the ceiling of rewards, where little more can be gained.
        """
        low, high = scale.rewards
        level = scale.mean_reward
        room = 1.0 if level is None else (high - level) / (high - low)
        shrunk = min(max(room, _LEAST_ROOM) / _HIGH, 1.0)
        return self._worthwhile_share(scale) * shrunk * (high - low)


class RolloutsSpentError(Exception):
    """Error: a verification does not fit into the budget."""

    def __init__(self, needed: int, budget_left: int) -> None:
        super().__init__(
            f"no verification: it needs {needed} more rollouts and the budget has {budget_left}; "
            "none is admitted, training goes on; evolve earlier (evolve_until), ask fewer "
            "questions (verify_questions) or raise the budget"
        )


class VerificationRollouts:
    """Rolls the current policy out for a verifier, within the budget.

    Args:
        rollout: rolls the current policy out.
        remaining_rollouts: rollouts that the budget has left; None for no end.
        group: rollouts of a question that the trainer's reward code is given together; an
            assignment gets as many, or a multiple.

    Attributes:
        trajectories: everything that was rolled out.
        errors: of the trainer or the budget, not of the verifier.
        seconds: that verifications took.
    """

    def __init__(
        self, rollout: RolloutFn, remaining_rollouts: int | None = None, group: int = 1
    ) -> None:
        self.group = group
        self.trajectories: list[Trajectory] = []
        self.errors: list[Exception] = []
        self.seconds = 0.0
        self._rollout = rollout
        self._remaining = remaining_rollouts

    @property
    def remaining(self) -> int | None:
        """Return the rollouts that the budget has left; None for no end."""
        return None if self._remaining is None else self._remaining - len(self.trajectories)

    def __call__(self, assignments: Sequence[Assignment], /) -> Sequence[Trajectory]:
        """Return the trajectories of the assignments.

        Raises:
            RolloutsSpentError: they are more than the budget has left.
            InputError: a reward is NaN or infinite.
        """
        assignments = [self._in_groups(assignment) for assignment in assignments]
        needed = sum(assignment.rollouts for assignment in assignments)
        try:
            if self.remaining is not None and needed > self.remaining:
                raise RolloutsSpentError(needed, self.remaining)
            with monitor.suspended():
                trajectories = self._rollout(assignments)
            for trajectory in trajectories:
                trajectory.require_finite()
        except Exception as error:
            self.errors.append(error)
            raise
        self.trajectories += trajectories
        return trajectories

    def _in_groups(self, assignment: Assignment) -> Assignment:
        """Return the assignment with as many rollouts as make its last group whole."""
        missing = -assignment.rollouts % self.group
        if not missing:
            return assignment
        return replace(assignment, rollouts=assignment.rollouts + missing)

    @property
    def failures(self) -> FailureCount:
        """Return the number of rollouts without a reward, or empty and not rewarded."""
        failures = FailureCount()
        for trajectory in self.trajectories:
            failures = failures.with_rollout(_fault(trajectory))
        return failures


def _fault(trajectory: Trajectory) -> str:
    """Why a rollout came to nothing; empty if it did not."""
    if trajectory.reward is None:
        return trajectory.failure
    silent = bool(trajectory.turns) and not any(turn.action.strip() for turn in trajectory.turns)
    if silent and trajectory.reward <= 0:
        return f"{EMPTY}, of {trajectory.candidate.id} to question {trajectory.question.id!r}"
    return ""
