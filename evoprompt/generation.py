"""One generation: propose, screen, verify, admit.

A generation goes through these states. *Due*: it is time for one (``requests``). *Proposing*: the
proposer is asked, and screening accepts or rejects what it wrote. *Verifying*: the verifier decides
with extra rollouts, and another round may follow; or it leaves candidates *on trial*, which have a
share of the training rollouts, and decides after the training steps to come. *Admitting*: admitted
candidates join the population, and the next generation is scheduled.

"Generation" is one such cycle here, never the sampling of text by a model.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from pydantic import Field, NonNegativeInt

from evoprompt.config import EngineConfig
from evoprompt.log.eventlog import EventLog
from evoprompt.log.events import Notice, Verified
from evoprompt.log.summaries import TRIED, rollout_events
from evoprompt.proposing import ProposalRequests, StillProposingError
from evoprompt.replay import rollouts_to_keep
from evoprompt.roles import TrainingScale, VerificationRequest, Verifier
from evoprompt.screening import Rejection, Screening, summarise
from evoprompt.selection import Selection
from evoprompt.support.calls import naming
from evoprompt.support.storage import SavedRecord
from evoprompt.support.text import format_error, format_error_with_place
from evoprompt.support.waiting import monitor
from evoprompt.types import (
    ADMITTED,
    ON_TRIAL,
    REJECTED,
    Candidate,
    CandidateStats,
    Proposal,
    Trajectory,
    Verification,
    VerificationResult,
)
from evoprompt.verifiers import MIN_VERIFICATION, RolloutsSpentError, VerificationRollouts

_IN_A_ROW = 3  # failed generations that are no longer bad luck
_MAX_SHARE = 0.2
"""Extra rollouts of a generation, all rounds together, for each one of training since the last. The
paper's numbers at its size stay below; at 16 x 5 they took .82 of all rollouts."""
_MAX_NOTICES = 8  # of generations that are not repeated
_LEVEL = 0.1  # weight of a step in the mean reward
Approve = Callable[[Sequence[VerificationResult]], list[VerificationResult]]
"""Returns those of the admitted that a person approves."""


@dataclass(slots=True)
class TrialCandidate:
    """A candidate on trial, with the rewards of its training rollouts.

    Attributes:
        candidate: the candidate.
        scored: number of its rewards.
        total: their sum.
        squares: the sum of their squares.
    """

    candidate: Candidate
    scored: int = 0
    total: float = 0.0
    squares: float = 0.0

    @property
    def result(self) -> VerificationResult:
        """Return what is known of it."""
        if not self.scored:
            return VerificationResult(self.candidate, None, None, 0)
        mean, stderr = self.total / self.scored, None
        if self.scored > 1:
            spread = max(self.squares / self.scored - mean**2, 0.0)
            stderr = math.sqrt(spread / (self.scored - 1))
        return VerificationResult(self.candidate, mean, stderr, self.scored)


class Trials(SavedRecord):
    """The candidates on trial, and the size of the training.

    Attributes:
        trials: candidates on trial, in the order of their proposals.
        parents: ids of the candidates that they improve upon.
        admitted: candidates of this generation that were admitted so far.
        questions: questions of a step.
        rollouts: rollouts of a question.
        mean_reward: mean reward of the last steps; None before the first.
        notices: the last notices of generations, which are not repeated.
    """

    trials: list[TrialCandidate] = Field(default_factory=list)
    parents: list[str] = Field(default_factory=list)
    admitted: NonNegativeInt = 0
    questions: NonNegativeInt = 0
    rollouts: NonNegativeInt = 0
    mean_reward: float | None = None
    notices: list[str] = Field(default_factory=list)

    @property
    def candidates(self) -> list[Candidate]:
        """Return the candidates on trial."""
        return [trial.candidate for trial in self.trials]

    def observe(self, trajectories: Sequence[Trajectory]) -> None:
        """Count the rewards of a training step."""
        by_candidate: dict[str, list[float]] = {}
        for trajectory in trajectories:
            if trajectory.reward is not None:
                by_candidate.setdefault(trajectory.candidate.id, []).append(trajectory.reward)
        if not by_candidate:
            return
        rewards = [
            reward for candidate_rewards in by_candidate.values() for reward in candidate_rewards
        ]
        mean = math.fsum(rewards) / len(rewards)
        before = mean if self.mean_reward is None else self.mean_reward
        self.mean_reward = before + _LEVEL * (mean - before)
        for trial in self.trials:
            trial_rewards = by_candidate.get(trial.candidate.id, [])
            trial.scored += len(trial_rewards)
            trial.total = math.fsum((trial.total, *trial_rewards))
            trial.squares = math.fsum((trial.squares, *[reward**2 for reward in trial_rewards]))


@dataclass(slots=True)
class Offspring:
    """State of one generation, from its parents to its admitted candidates.

    Attributes:
        step: the engine step.
        members: the members of the population.
        parents: candidates to improve, best first.
        free_places: free places.
        max_rounds: largest number of rounds.
        admitted: results of the candidates to admit, in order of admission.
        verifications: results of the verifier, one per round.
        has_requested: whether a request was sent to the proposer.
        rounds: propose-verify rounds made.
        proposed: proposals received, rejected ones included.
        num_tried: candidates that passed screening and could be verified.
        on_trial: candidates that the verifier left on trial.
        proposer_failures: times the proposer raised or returned something else than proposals.
        findings: findings of screening against the rejected proposals.
        obstacle: why none could be tried in the last round; empty if one was.
        is_cut: whether the budget had no room for the last verification.
        is_postponed: whether the proposer has not returned, so that the generation is still due.
    """

    step: int
    members: Sequence[CandidateStats]
    parents: Sequence[CandidateStats]
    free_places: int
    max_rounds: int
    admitted: list[VerificationResult] = field(default_factory=list)
    verifications: list[Verification] = field(default_factory=list)
    has_requested: bool = False
    rounds: int = 0
    proposed: int = 0
    num_tried: int = 0
    on_trial: list[Candidate] = field(default_factory=list)
    proposer_failures: int = 0
    findings: list[Rejection] = field(default_factory=list)
    obstacle: str = ""
    is_cut: bool = False
    is_postponed: bool = False

    @property
    def failure(self) -> str:
        """Return why the generation failed (:class:`GenerationStats`); empty if it did not."""
        return self.obstacle if self.has_requested and not self.num_tried else ""

    @property
    def is_refused(self) -> bool:
        """Return whether none that was tried was admitted or is on trial."""
        return self.num_tried > 0 and not self.admitted and not self.on_trial and not self.is_cut


class GenerationStats(SavedRecord):
    """Counts of the generations of a run, by how they ended; they survive a resume.

    A generation *failed* if a request was sent and there was nothing to verify: the proposer
    raised, proposed nothing, or screening rejected every proposal. If verification rejected every
    candidate, the generation was *refused*; that is a result and not a failure, and has its own
    count.

    Attributes:
        generations: in which the proposer was asked.
        generations_failed: of them, those that failed.
        generations_refused: of them, those that were refused.
        proposer_failures: times the proposer raised, or returned something else than proposals.
        admitted_total: candidates admitted.
        failed_in_a_row: generations that failed since the last one that did not.
        last_failure: why the last failed generation failed.
    """

    generations: int = 0
    generations_failed: int = 0
    generations_refused: int = 0
    proposer_failures: int = 0
    admitted_total: int = 0
    failed_in_a_row: int = 0
    last_failure: str = ""

    @property
    def all_failed(self) -> bool:
        """Return whether there were generations, and all of them failed."""
        return 0 < self.generations == self.generations_failed

    def count(self, step: int, offspring: Offspring) -> str:
        """Count a generation at engine step ``step``.

        Returns:
            A warning after the first failure and after three in a row; otherwise an empty text.
        """
        self.generations += offspring.has_requested
        self.generations_refused += offspring.is_refused
        self.proposer_failures += offspring.proposer_failures
        self.admitted_total += len(offspring.admitted)
        if not offspring.failure:
            self.failed_in_a_row = 0
            return ""
        self.generations_failed += 1
        self.failed_in_a_row += 1
        self.last_failure = offspring.failure
        message = f"{offspring.failure}; training goes on under the instructions it has"
        if self.failed_in_a_row == _IN_A_ROW:
            return f"{_IN_A_ROW} generations in a row failed, the last at step {step}: {message}"
        if self.generations_failed == 1:
            return f"the generation at step {step} failed: {message}"
        return ""

    def metrics(self) -> dict[str, float]:
        """Return the counts of the whole run."""
        counts = self.model_dump(exclude={"failed_in_a_row", "last_failure"})
        return {name: float(count) for name, count in counts.items()}


@dataclass(eq=False)
class Generations:
    """Evolution step: from parents to verified candidates (paper Algorithm 1).

    Attributes:
        config: the engine's numbers.
        requests: sends requests to the proposer.
        selection: selects the parents, and adds the admitted candidates.
        screening: checks texts before a rollout is spent.
        verifier: decides which candidates are admitted.
        log: takes the events.
        stats: how the generations of the run ended.
        trials: candidates on trial, and the size of the training.
    """

    config: EngineConfig
    requests: ProposalRequests
    selection: Selection
    screening: Screening
    verifier: Verifier
    log: EventLog
    stats: GenerationStats = field(default_factory=GenerationStats, init=False)
    trials: Trials = field(default_factory=Trials, init=False)

    def scale(self, rollouts_left: int | None = None) -> TrainingScale:
        """Return the size of the training, as far as it is known."""
        trials = self.trials
        return TrainingScale(
            trials.questions,
            trials.rollouts,
            self.selection.candidates_per_question,
            rollouts_left,
            self.selection.rewards,
            trials.mean_reward,
        )

    def most_rollouts(self, proposed: int) -> int:
        """Return the most extra rollouts of a round that tries so many.

        Where the size of a step is known, that is within the share of the training that a
        generation may take, but never less than the least verification.
        """
        rolled_out = proposed + self.config.parents
        max_rollouts = self.verifier.most_rollouts(proposed, self.config.parents)
        if max_rollouts is None:
            max_rollouts = self.config.verify_questions * rolled_out
        if self.trials.questions:
            max_rollouts = min(max_rollouts, max(self._max_rollouts, MIN_VERIFICATION * rolled_out))
        return max_rollouts

    def most_rounds(self, waits: bool) -> int:
        """Return the most rounds of a generation; one of a background proposer that none awaits."""
        if self.verifier.share or not (waits or not self.requests.proposer.can_anticipate):
            return 1
        return self.config.verify_rounds

    @property
    def _max_rollouts(self) -> int:
        """Return the extra rollouts of a generation: a share of the training since the last one."""
        trials = self.trials
        return int(_MAX_SHARE * trials.questions * trials.rollouts * self.requests.period)

    def breed(self, step: int, rollout: VerificationRollouts, waits: bool = True) -> Offspring:
        """Return the candidates of a generation, from at most ``most_rounds`` rounds.

        At the very start there is nothing to verify on: what passes screening is admitted
        unmeasured. Later, none is admitted where nothing can be measured, and the generation ends.

        Args:
            step: the engine step.
            rollout: rolls the current policy out.
            waits: whether to wait for a proposer that does not return.
        """
        members = self.selection.candidate_stats()
        self.selection.remember(step, members)
        parents = self.selection.parents(members)
        free_places = self.config.population_size - len(members)
        if step and self.verifier.share:
            free_places = self.config.population_size - len(self.selection.pinned)
        elif step:
            free_places = self.config.population_size - len(self.selection.protected(members))
        if free_places <= 0:
            self._notify(step, _no_place(self.config.population_size, bool(self.verifier.share)))
        offspring = Offspring(step, members, parents, free_places, self.most_rounds(waits))
        self.screening.begin_generation()
        while offspring.free_places > 0 and offspring.rounds < offspring.max_rounds:
            proposals = self._propose(offspring, waits)
            if not proposals:
                break
            fresh = self._screen(proposals, offspring)
            if fresh and not self._try(fresh, rollout, offspring):
                break
        return offspring

    def admit(self, offspring: Offspring) -> None:
        """Add the admitted to the population, start the trials, and end the generation."""
        step = offspring.step
        measured = [
            result for verification in offspring.verifications for result in verification.results
        ]
        self.selection.remember(
            step,
            [
                CandidateStats(result.candidate, result.mean, groups=result.scored)
                for result in measured
                if result.mean is not None
            ],
        )
        if offspring.admitted:
            self.selection.make_room(step, len(offspring.admitted))
            for result in offspring.admitted:
                self.selection.add(result.candidate)
            trajectories = [
                trajectory
                for verification in offspring.verifications
                for trajectory in verification.trajectories
            ]
            if trajectories or self.config.reset == "zero" or not self.verifier.share:
                self.selection.credit_verification(step, trajectories)
        self.trials.trials = [TrialCandidate(candidate) for candidate in offspring.on_trial]
        self.trials.parents = [stats.candidate.id for stats in offspring.parents]
        self.trials.admitted = 0
        self.requests.reset_schedule(step)

    # ---------------------------------------------------------------------------------- trials

    def decide_trials(
        self, step: int, approve: Approve, rollouts_left: int | None = None
    ) -> list[VerificationResult]:
        """Ask the verifier about the candidates on trial, after a training step.

        Args:
            step: the engine step.
            approve: function by which a person approves the admitted candidates.
            rollouts_left: rollouts that the budget has left; None where there is no budget.

        Returns:
            Results of the candidates that are decided.
        """
        trials = self.trials
        if not trials.trials:
            return []
        candidates = trials.candidates
        slots = max(self.config.population_size - len(self.selection.pinned), 0)
        parents = [
            stats
            for stats in self.selection.candidate_stats()
            if stats.candidate.id in trials.parents
        ]
        request = VerificationRequest(
            candidates,
            parents or self.selection.parents(self.selection.candidate_stats()),
            self.screening.replay,
            None,
            slots,
            self.selection.rng,
            estimator=self.selection.attributor,
            incumbent=self.selection.incumbent,
            trials=[trial.result for trial in trials.trials],
            scale=self.scale(rollouts_left),
        )
        with naming("verifier", self.verifier, self.log.report_wait):
            verification = self.verifier.verify(request)
            _require_sound(verification, candidates, slots, self.verifier)
            limit = self.verifier.max_trial_rollouts(request.scale)
        overdue = {trial.candidate.id for trial in trials.trials if trial.scored >= limit}
        decided = [
            self._reject_undecided(result, limit, step) if result.is_on_trial else result
            for result in verification.results
            if not result.is_on_trial or result.candidate.id in overdue
        ]
        if not decided:
            return []
        admitted = [result for result in decided if result.is_admitted]
        approved = {result.candidate.id for result in approve(admitted)}
        decided = [
            result
            if not result.is_admitted or result.candidate.id in approved
            else replace(result, decision=REJECTED, reason="a person refused it")
            for result in decided
        ]
        self.selection.remember(step, self.selection.stats_of([r.candidate for r in decided]))
        names = {result.candidate.id for result in decided}
        trials.trials = [trial for trial in trials.trials if trial.candidate.id not in names]
        for result in decided:
            if result.is_admitted:
                self.selection.add(result.candidate)
                trials.admitted += 1
        self.selection.update_incumbent()
        self.selection.make_room(step)
        if any(result.is_admitted for result in decided):
            self.selection.credit_verification(step, ())
        self.selection.forget([result.candidate.id for result in decided if not result.is_admitted])
        self._close_trials(step, decided)
        return decided

    def _reject_undecided(
        self, result: VerificationResult, limit: int, step: int
    ) -> VerificationResult:
        """Return the rejection of a candidate that was on trial for too long, with a notice."""
        name, incumbent = result.candidate.id, self.selection.incumbent
        lead = self.selection.lead(result.candidate, incumbent)
        standing = "its lead over the incumbent is not known: that takes more different questions"
        if lead.is_known:
            standing = f"its lead over {incumbent.id} is {lead.value:.3f} ± {lead.stderr:.3f}"
        reason = f"undecided after {limit} rollouts, the limit of a trial; {standing}"
        self._notify(step, f"{name} is rejected: {reason}")
        return replace(result, decision=REJECTED, reason=reason)

    def _close_trials(self, step: int, decided: Sequence[VerificationResult]) -> None:
        """Report decided candidates to log, proposer and counts."""
        for result in decided:
            self.log.append(Verified.of(result, step, 1, parent=False))
            if not result.is_admitted:
                self.screening.reject_for_generation(result.candidate)
        self.requests.give_feedback(decided)
        self.stats.admitted_total += sum(result.is_admitted for result in decided)
        self.stats.generations_refused += not self.trials.trials and not self.trials.admitted

    def _notify(self, step: int, notice: str) -> None:
        """Log a notice, unless it is empty or was logged before."""
        if notice and notice not in self.trials.notices:
            self.trials.notices = [*self.trials.notices, notice][-_MAX_NOTICES:]
            self.log.append(Notice(step, notice))

    # ------------------------------------------------------------------------------- one round

    def _propose(self, offspring: Offspring, waits: bool) -> Sequence[Proposal]:
        step = offspring.step
        count = self.requests.count_proposals(
            offspring.free_places, step, offspring.max_rounds, self.scale()
        )
        request = self.requests.make(offspring.parents, offspring.members, count, step)
        offspring.has_requested = True
        proposals: list[Proposal] = []
        try:
            proposals = self.requests.propose(request, waits)
            offspring.obstacle = "" if proposals else "the proposer proposed nothing"
        except StillProposingError:
            offspring.is_postponed = not offspring.rounds
        except Exception as error:  # a proposer's failure must never end a training run
            offspring.obstacle = f"the proposer failed ({format_error(error)})"
            offspring.proposer_failures += 1
            reason = format_error_with_place(error)
            self.log.append(Notice(step, f"the proposer failed, training goes on: {reason}"))
        self.requests.report(step)
        return proposals

    def _screen(self, proposals: Sequence[Proposal], offspring: Offspring) -> list[Candidate]:
        offspring.rounds += 1
        offspring.proposed += len(proposals)
        candidates = [stats.candidate for stats in offspring.members]
        candidates += [result.candidate for result in offspring.admitted]
        requested = self.requests.requested_parents
        is_first = requested and offspring.rounds == 1
        parent = requested[0] if is_first else offspring.parents[0].candidate
        earlier = [*(stats.candidate for stats in self.selection.history), *requested]
        with monitor.reporting(self.log.report_wait):
            fresh = self.screening.screen(proposals, candidates, parent, offspring.step, earlier)
        for event in self.screening.events:
            self.log.append(event)
        offspring.findings += self.screening.findings
        if not fresh:
            reason = summarise(offspring.findings)
            offspring.obstacle = f"screening refused all {offspring.proposed}: {reason}"
        return fresh

    def _try(
        self, fresh: Sequence[Candidate], rollout: VerificationRollouts, offspring: Offspring
    ) -> bool:
        """Verify candidates and admit some; return whether another round may follow."""
        if not offspring.step:
            offspring.num_tried += len(fresh)
            untried = [
                VerificationResult(candidate, None, None, 0, ADMITTED)
                for candidate in fresh[: offspring.free_places]
            ]
            offspring.admitted += untried
            offspring.free_places -= len(untried)
            return True
        extra = not self.verifier.share and self.verifier.most_rollouts(2, 1) != 0
        if extra and not self.screening.replay.records:
            self._give_up(offspring, "no rollout of the training had a reward yet")
            return False
        before = len(rollout.trajectories)
        try:
            verification = self._verify(fresh, rollout, offspring)
        except RolloutsSpentError as error:
            offspring.is_cut = True
            self.log.append(Notice(offspring.step, str(error)))
            return False
        self._record_verification(verification, rollout.trajectories[before:], offspring)
        rewards = [trajectory.reward for trajectory in verification.trajectories]
        if rewards and not any(reward is not None for reward in rewards):
            reason = f"none of the {len(rewards)} rollouts of the verification had a reward"
            self._give_up(offspring, reason)
            return False
        offspring.num_tried += len(fresh)
        return True

    def _give_up(self, offspring: Offspring, reason: str) -> None:
        offspring.obstacle = reason
        message = f"no proposal could be verified, so none is admitted: {reason}"
        self.log.append(Notice(offspring.step, message))

    def _verify(
        self, fresh: Sequence[Candidate], rollout: VerificationRollouts, offspring: Offspring
    ) -> Verification:
        request = VerificationRequest(
            fresh,
            offspring.parents,
            self.screening.replay,
            rollout,
            offspring.free_places,
            self.selection.rng,
            tuple(offspring.verifications),
            offspring.max_rounds - offspring.rounds,
            self.selection.attributor,
            self.selection.incumbent,
            max(self._max_rollouts - len(rollout.trajectories), 0),
            scale=self.scale(rollout.remaining),
            group=rollout.group,
        )
        started = time.perf_counter()
        try:
            with naming("verifier", self.verifier, self.log.report_wait, rollout.errors):
                verification = self.verifier.verify(request)
                _require_sound(verification, fresh, offspring.free_places, self.verifier)
            return verification
        finally:
            rollout.seconds += time.perf_counter() - started

    def _record_verification(
        self,
        verification: Verification,
        trajectories: Sequence[Trajectory],
        offspring: Offspring,
    ) -> None:
        """Record what a round has shown in replay, log and proposer."""
        step = offspring.step
        readable = {
            index: (
                trajectory.candidate.id,
                trajectory.question.id,
                trajectory.rollout,
                trajectory.reward,
            )
            for index, trajectory in enumerate(trajectories)
            if trajectory.turns and trajectory.reward is not None
        }
        config = self.config
        chosen = rollouts_to_keep(readable, config.failure_threshold, config.failures_per_request)
        self.screening.replay.add_verification(
            step, [trajectories[index] for index in sorted(chosen)]
        )
        offspring.verifications.append(verification)
        for notice in (verification.notice, _describe_equal_rewards(verification)):
            self._notify(step, notice)
        decided = [result for result in verification.results if not result.is_on_trial]
        if decided:
            self.requests.give_feedback(decided)
        for result in verification.results:
            if result.is_admitted:
                offspring.admitted.append(result)
                offspring.free_places -= 1
            elif result.is_on_trial:
                offspring.on_trial.append(result.candidate)
            else:
                self.screening.reject_for_generation(result.candidate)
        for results, is_parent in ((verification.parents, True), (decided, False)):
            for result in results:
                self.log.append(Verified.of(result, step, offspring.rounds, is_parent))
        judged_ids = {result.candidate.id for result in verification.results}
        trial_trajectories = [
            trajectory
            for trajectory in verification.trajectories
            if trajectory.candidate.id in judged_ids
        ]
        for event in rollout_events(step, verification.trajectories, trial_trajectories, TRIED):
            self.log.append(event)


def _require_sound(
    verification: Verification, proposed: Sequence[Candidate], slots: int, verifier: Verifier
) -> None:
    """Refuse decisions that would harm a training in silence.

    Raises:
        ValueError: there is not one result for each of ``proposed``, more than ``slots`` are
            admitted, one was admitted that the rollouts could not measure, or one is left on trial
            by a verifier that has no share of the training rollouts.
    """
    proposed_ids = sorted(candidate.id for candidate in proposed)
    judged_ids = sorted(result.candidate.id for result in verification.results)
    if judged_ids != proposed_ids:
        raise ValueError(f"it judged {judged_ids}; required: one result for each of {proposed_ids}")
    unknown = {result.decision for result in verification.results} - {ADMITTED, REJECTED, ON_TRIAL}
    if unknown:
        raise ValueError(
            f"it decided {sorted(map(str, unknown))}; required: 'admitted', 'rejected' or 'on "
            "trial'"
        )
    admitted = [result for result in verification.results if result.is_admitted]
    if len(admitted) > slots:
        raise ValueError(f"it admitted {len(admitted)}; required: at most {slots}")
    for result in admitted:
        if result.mean is None and verification.trajectories:
            raise ValueError(
                f"it admitted {result.candidate.id}, of which nothing was scored; required: a "
                "measurement of all that are admitted, or no rollouts at all"
            )
    if not verifier.share and any(result.is_on_trial for result in verification.results):
        raise ValueError(
            "it left candidates on trial and its share is 0, so they would never have a rollout; "
            "required: a share above 0, or a decision about each"
        )


def _no_place(population_size: int, is_in_training: bool) -> str:
    """Return a notice where no candidate can be admitted, as no member may make room."""
    protected = "pinned members"
    if not is_in_training:
        protected = "the best, the parents, pinned members and members that are not measured yet"
    return (
        "no instruction is proposed at this step: all places of the population "
        f"({population_size}) are taken by {protected}; raise population_size, or unpin a member"
    )


def _describe_equal_rewards(verification: Verification) -> str:
    """Return a notice where candidates were admitted although all rewards were the same."""
    admitted = sum(result.is_admitted for result in verification.results)
    rewards = [
        trajectory.reward
        for trajectory in verification.trajectories
        if trajectory.reward is not None
    ]
    if not admitted or len(set(rewards)) != 1:
        return ""
    return (
        f"verification found no difference: all {len(rewards)} rewards were {rewards[0]:g}, and "
        f"{admitted} of {len(verification.results)} candidates were admitted nevertheless; ask "
        "more questions (verify_questions), or questions that are neither too hard nor too easy"
    )
