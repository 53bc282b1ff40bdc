"""One generation: reflect, screen, verify, admit; repeated until the population is full.

"Generation" is one such cycle here, never the sampling of text by a model.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from evoprompt.config import EngineConfig
from evoprompt.eventlog import EventLog
from evoprompt.events import Notice, Verified
from evoprompt.plugins import naming
from evoprompt.proposers.combinators import signed
from evoprompt.proposing import ProposalRequests
from evoprompt.replay import worth_reading
from evoprompt.roles import VerificationRequest, Verifier
from evoprompt.screening import Finding, Screening, summarise
from evoprompt.selection import Selection
from evoprompt.storage import SavedRecord
from evoprompt.summaries import TRIED, to_read
from evoprompt.text import format_error, format_error_with_place
from evoprompt.types import (
    Candidate,
    CandidateStats,
    Proposal,
    Trajectory,
    Verification,
    VerificationResult,
)
from evoprompt.verifiers import RolloutsSpentError, VerificationRollouts

_IN_A_ROW = 3  # failed generations that are no longer bad luck


@dataclass(slots=True)
class Offspring:
    """What one generation began with, and what it brought forth.

    Attributes:
        step: the engine step.
        living: those who were alive.
        parents: whom it improves, best first.
        kept: ids of those that stay beside it.
        places: that are free.
        most: rounds that it may have.
        admitted: results of the candidates to admit, in order of admission.
        verifications: what the verifier found, a round each.
        asked: whether the proposer was asked at all.
        rounds: propose-verify rounds made.
        proposed: proposals received, rejected ones included.
        tried: candidates that passed screening and could be verified.
        proposer_failures: times the proposer raised or returned something else than proposals.
        findings: of screening, against the others.
        obstacle: why none could be tried in the last round; empty if one was.
        cut: whether the budget had no room for the last verification.
        in_training: whether the admitted are tried in training first.
    """

    step: int
    living: Sequence[CandidateStats]
    parents: Sequence[CandidateStats]
    kept: frozenset[str]
    places: int
    most: int
    admitted: list[VerificationResult] = field(default_factory=list)
    verifications: list[Verification] = field(default_factory=list)
    asked: bool = False
    rounds: int = 0
    proposed: int = 0
    tried: int = 0
    proposer_failures: int = 0
    findings: list[Finding] = field(default_factory=list)
    obstacle: str = ""
    cut: bool = False
    in_training: bool = False

    @property
    def failure(self) -> str:
        """Why the generation failed (:class:`GenerationStats`); empty if it did not."""
        return self.obstacle if self.asked and not self.tried else ""

    @property
    def refused(self) -> bool:
        """Whether none that was tried was admitted."""
        return self.tried > 0 and not self.admitted and not self.cut


class GenerationStats(SavedRecord):
    """How the generations of a run ended; counts that survive a resume.

    A generation *failed* when its proposer was asked and none was admitted because there was
    nothing to try: the proposer raised, proposed nothing, or screening refused everything.
    When candidates were tried and verification refused all of them, the generation was
    *refused*: that is a finding, not a failure, and it is counted apart.

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
        """Whether there were generations, and every one of them failed."""
        return 0 < self.generations == self.generations_failed

    def count(self, step: int, offspring: Offspring) -> str:
        """Counts a generation that took place at engine step ``step``.

        Returns:
            What a person should be warned of: the first failure, and three in a row; else empty.
        """
        self.generations += offspring.asked
        self.generations_refused += offspring.refused
        self.proposer_failures += offspring.proposer_failures
        self.admitted_total += 0 if offspring.in_training else len(offspring.admitted)
        if not offspring.failure:
            self.failed_in_a_row = 0
            return ""
        self.generations_failed += 1
        self.failed_in_a_row += 1
        self.last_failure = offspring.failure
        said = f"{offspring.failure}; training goes on under the instructions it has"
        if self.failed_in_a_row == _IN_A_ROW:
            return f"{_IN_A_ROW} generations in a row failed, the last at step {step}: {said}"
        if self.generations_failed == 1:
            return f"the generation at step {step} failed: {said}"
        return ""

    def metrics(self) -> dict[str, float]:
        """The counts of the whole run."""
        counts = self.model_dump(exclude={"failed_in_a_row", "last_failure"})
        return {name: float(count) for name, count in counts.items()}


@dataclass(eq=False)
class Generations:
    """Turns parents into verified offspring (paper Algorithm 1, the evolution step).

    Attributes:
        config: the engine's numbers.
        requests: says what the proposer is asked, and when.
        selection: picks the parents, and takes the offspring in.
        screening: lets texts become candidates before a rollout is spent.
        verifier: rolls the candidates out.
        log: takes the events.
        stats: how the generations of the run ended.
    """

    config: EngineConfig
    requests: ProposalRequests
    selection: Selection
    screening: Screening
    verifier: Verifier
    log: EventLog
    stats: GenerationStats = field(default_factory=GenerationStats, init=False)

    def most_rollouts(self, proposed: int) -> int:
        """Most rollouts of a round that tries so many, with those of a best that is dead."""
        config = self.config
        if self.selection.challengers.mode == "in-training":
            return 0
        most = self.verifier.most_rollouts(proposed, config.parents)
        if most is None:
            most = config.verify_questions * (proposed + config.parents)
        return most + (config.verify_questions if most else 0)

    def most_rounds(self, waits: bool) -> int:
        """Most rounds of a generation: one of a proposer that thinks ahead, unless one waits."""
        return self.config.verify_rounds if waits or not self.requests.proposer.anticipates else 1

    def breed(self, step: int, rollout: VerificationRollouts, waits: bool = True) -> Offspring:
        """Offspring of the best, from at most ``most_rounds`` rounds; nobody lives yet.

        At the very start there is nothing to verify on: what passes screening is admitted
        unmeasured. Later, nobody is where nothing can be measured, and the generation ends. What a
        proposer thought ahead descends from those it was asked to improve, alive or not.

        Args:
            step: the engine step.
            rollout: rolls the current policy out.
            waits: whether to wait for a proposer that is still thinking.
        """
        living = self.selection.candidate_stats()
        self.selection.remember(living)
        parents = self.selection.parents(living)
        # Trial candidates need no free places, so nothing gives way to them before it was measured.
        in_training = self.selection.challengers.mode == "in-training"
        kept = self.selection.kept(parents, living, everybody=not step or in_training)
        free = self.config.population_size - len(kept)
        found = Offspring(step, living, parents, kept, free, self.most_rounds(waits))
        if in_training:
            found.in_training, found.places = True, self.selection.challengers.at_once
        self.screening.begin_generation()
        while found.places > 0 and found.rounds < found.most:
            proposals = self._propose(found)
            if not proposals:
                break
            fresh = self._screen(proposals, found)
            if fresh and not self._try(fresh, rollout, found):
                break
        return found

    def admit(self, offspring: Offspring) -> None:
        """Lets the admitted live, beside those that stay; the generation ends."""
        step = offspring.step
        measured = [result for one in offspring.verifications for result in one.results]
        self.selection.remember(
            [
                CandidateStats(one.candidate, one.mean, groups=one.scored)
                for one in measured
                if one.mean is not None
            ]
        )
        if offspring.admitted and offspring.in_training:
            children = [result.candidate for result in offspring.admitted]
            parent = offspring.parents[0].candidate
            self.selection.begin_challenge(step, parent, offspring.kept, children)
        elif offspring.admitted:
            self.selection.keep_only(step, offspring.kept)
            admitted = [result.candidate for result in offspring.admitted]
            told = [one for found in offspring.verifications for one in found.trajectories]
            self.selection.admit(step, admitted, told)
        self.requests.begin_anew(step)

    def close_challenge(self, step: int, ended: Sequence[VerificationResult]) -> None:
        """Tells log, proposer and counts of challengers who are decided."""
        for result in ended:
            self.log.append(Verified.of(result, step, 1, parent=False))
            if not result.admitted:
                self.screening.turn_away(result.candidate)
        with naming("proposer", self.requests.proposer):
            self.requests.proposer.feedback(ended)
        admitted = [result.candidate.id for result in ended if result.admitted]
        self.stats.admitted_total += len(admitted)
        challengers = self.selection.challengers
        self.stats.generations_refused += not challengers.candidates and not challengers.admitted

    def _propose(self, found: Offspring) -> Sequence[Proposal]:
        step = found.step
        request = self.requests.make(found.parents, found.living, found.places, step)
        found.asked = True
        proposals: list[Proposal] = []
        try:
            proposer = self.requests.proposer
            proposals = signed(proposer.propose(request), proposer.name)
            found.obstacle = "" if proposals else "the proposer proposed nothing"
        except Exception as error:  # a proposer's failure must never end a training run
            found.obstacle = f"the proposer failed ({format_error(error)})"
            found.proposer_failures += 1
            reason = format_error_with_place(error)
            self.log.append(Notice(step, f"the proposer failed, training goes on: {reason}"))
        self.requests.report(step)
        return proposals

    def _screen(self, proposals: Sequence[Proposal], found: Offspring) -> list[Candidate]:
        found.rounds += 1
        found.proposed += len(proposals)
        known = [one.candidate for one in found.living]
        known += [one.candidate for one in found.admitted]
        asked_for = self.requests.asked_about
        first = asked_for[0] if asked_for and found.rounds == 1 else found.parents[0].candidate
        dead = [*(stats.candidate for stats in self.selection.history), *asked_for]
        fresh = self.screening.screen(proposals, known, first, found.step, dead)
        for event in self.screening.events:
            self.log.append(event)
        found.findings += self.screening.findings
        if not fresh:
            why = summarise(found.findings)
            found.obstacle = f"screening refused all {found.proposed}: {why}"
        return fresh

    def _try(
        self, fresh: Sequence[Candidate], rollout: VerificationRollouts, found: Offspring
    ) -> bool:
        """Verifies, and admits some; returns whether another round may follow."""
        if not found.step or found.in_training:
            found.tried += len(fresh)
            untried = [
                VerificationResult(one, None, None, 0, admitted=True)
                for one in fresh[: found.places]
            ]
            found.admitted += untried
            found.places -= len(untried)
            return True
        if self.requests.verified and not self.screening.replay.records:
            self._give_up(found, "no rollout of the training had a reward yet")
            return False
        before = len(rollout.answers)
        try:
            verification = self._verify(fresh, rollout, found)
        except RolloutsSpentError as error:
            found.cut = True
            self.log.append(Notice(found.step, str(error)))
            return False
        self._learn(verification, rollout.answers[before:], found)
        rewards = [one.reward for one in verification.trajectories]
        if rewards and not any(reward is not None for reward in rewards):
            why = f"none of the {len(rewards)} rollouts of the verification had a reward"
            self._give_up(found, why)
            return False
        found.tried += len(fresh)
        return True

    def _give_up(self, found: Offspring, why: str) -> None:
        found.obstacle = why
        message = f"no proposal could be verified, so none is admitted: {why}"
        self.log.append(Notice(found.step, message))

    def _verify(
        self, fresh: Sequence[Candidate], rollout: VerificationRollouts, found: Offspring
    ) -> Verification:
        request = VerificationRequest(
            fresh,
            found.parents,
            self.screening.replay,
            rollout,
            found.places,
            self.selection.rng,
            tuple(found.verifications),
            found.most - found.rounds,
        )
        started = time.perf_counter()
        try:
            with naming("verifier", self.verifier, rollout.errors):
                verification = self.verifier.verify(request)
                _require_sound(verification, fresh, found.places)
            return verification
        finally:
            rollout.seconds += time.perf_counter() - started

    def _learn(
        self, verification: Verification, answers: Sequence[Trajectory], found: Offspring
    ) -> None:
        """Takes in what a round has shown, for the next request too, and tells proposer and log."""
        step = found.step
        readable = {
            place: (one.candidate.id, one.question.id, one.rollout, one.reward)
            for place, one in enumerate(answers)
            if one.turns and one.reward is not None
        }
        config = self.config
        chosen = worth_reading(readable, config.failure_threshold, config.failures_per_request)
        self.screening.replay.add_verification(step, [answers[place] for place in sorted(chosen)])
        found.verifications.append(verification)
        for notice in (verification.notice, _found_no_difference(verification)):
            if notice:
                self.log.append(Notice(step, notice))
        with naming("proposer", self.requests.proposer):
            self.requests.proposer.feedback(verification.results)
        for result in verification.results:
            if result.admitted:
                found.admitted.append(result)
                found.places -= 1
            else:
                self.screening.turn_away(result.candidate)
        for results, is_parent in ((verification.parents, True), (verification.results, False)):
            for one in results:
                self.log.append(Verified.of(one, step, found.rounds, is_parent))
        tried = {result.candidate.id for result in verification.results}
        shown = [one for one in verification.trajectories if one.candidate.id in tried]
        for event in to_read(step, verification.trajectories, shown, TRIED):
            self.log.append(event)


def _require_sound(found: Verification, proposed: Sequence[Candidate], slots: int) -> None:
    """Refuses what would harm a training in silence.

    Raises:
        ValueError: there is not one result for each of ``proposed``, more than ``slots`` are
            admitted, or one whom the rollouts could not measure.
    """
    wanted = sorted(candidate.id for candidate in proposed)
    judged = sorted(result.candidate.id for result in found.results)
    if judged != wanted:
        raise ValueError(f"it judged {judged}; required: one result for each of {wanted}")
    admitted = [result for result in found.results if result.admitted]
    if len(admitted) > slots:
        raise ValueError(f"it admitted {len(admitted)}; required: at most {slots}")
    for result in admitted:
        if result.mean is None and found.trajectories:
            raise ValueError(
                f"it admitted {result.candidate.id}, of whom nothing was scored; required: a "
                "measurement of everybody admitted, or no rollouts at all"
            )


def _found_no_difference(verification: Verification) -> str:
    """A notice where children were admitted although all rewards were the same."""
    admitted = sum(result.admitted for result in verification.results)
    rewards = [one.reward for one in verification.trajectories if one.reward is not None]
    if not admitted or len(set(rewards)) != 1:
        return ""
    return (
        f"verification found no difference: all {len(rewards)} rewards were {rewards[0]:g}, and "
        f"{admitted} of {len(verification.results)} candidates were admitted all the same; ask "
        "more questions (verify_questions), or questions that are neither too hard nor too easy"
    )
