"""One generation: reflect, screen, verify, admit; repeated until the population is full.

"Generation" is one such cycle here, never the sampling of text by a model.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from evoprompt.asking import ProposalRequests
from evoprompt.candidates import Screening, summarise
from evoprompt.config import EngineConfig
from evoprompt.eventlog import EventLog
from evoprompt.events import Notice, Shown, Verified
from evoprompt.faults import naming
from evoprompt.offspring import GenerationStats, Offspring
from evoprompt.replay import worth_reading
from evoprompt.roles import VerificationRequest, Verifier
from evoprompt.selection import Selection
from evoprompt.summaries import answers_of
from evoprompt.text import format_error, format_error_with_place
from evoprompt.trial import NoRoomError, TrialRollouts
from evoprompt.types import (
    Candidate,
    CandidateStats,
    Proposal,
    Verification,
    VerificationResult,
)
from evoprompt.verifiers import ReplayTopN

_MOST_PROPOSALS = 1_000  # of one request; a generator may have no end


class Generations:
    """Turns parents into verified offspring (paper Algorithm 1, the evolution step).

    Args:
        config: the engine's numbers.
        requests: says what the proposer is asked, and when.
        selection: picks the parents, and takes the offspring in.
        screening: lets texts become candidates before a rollout is spent.
        verifier: rolls the candidates out.
        log: takes the events.

    Attributes:
        stats: how the generations of the run ended.
    """

    def __init__(
        self,
        config: EngineConfig,
        requests: ProposalRequests,
        selection: Selection,
        screening: Screening,
        verifier: Verifier,
        log: EventLog,
    ) -> None:
        self.config = config
        self.requests = requests
        self.selection = selection
        self.screening = screening
        self.verifier = verifier
        self.log = log
        self.stats = GenerationStats()

    def most_rollouts(self, proposed: int) -> int:
        """Most rollouts of a round that tries so many, with those of a best that is dead."""
        config = self.config
        most = self.verifier.most_rollouts(proposed, config.parents)
        if most is None:
            most = config.verify_questions * (proposed + config.parents)
        return most + (config.verify_questions if most else 0)

    def breed(self, step: int, trial: TrialRollouts, waits: bool = True) -> Offspring:
        """Offspring of the best, from at most ``verify_rounds`` rounds; nobody lives yet.

        At the very start there is nothing to verify on: what passes screening is admitted
        unmeasured. Later, nobody is where nothing can be measured, and the generation ends. A
        proposer that is still thinking is waited for, or else the generation goes on at a later
        step. What was proposed ahead descends from those it was asked to improve, alive or not.

        Args:
            step: the engine step.
            trial: rolls the current policy out.
            waits: whether to wait for a proposer that is still thinking.
        """
        living = self.selection.candidate_stats()
        self.selection.remember(living)
        unfilled = self.requests.unfilled
        parents = self.requests.parents(living)
        all_stay = not step or (unfilled is not None and unfilled.admitted > 0)
        kept = self.selection.kept(parents, living, all_stay)
        places = self.config.population_size - len(kept)
        places = places if unfilled is None else min(places, unfilled.places)
        found = Offspring(unfilled, parents, kept, places)
        if unfilled is None:
            self.screening.begin_generation()
        most = self.config.verify_rounds - (unfilled.rounds if unfilled else 0)
        while found.places > 0 and found.rounds < most:
            if not waits and not self.requests.proposer.ready:
                # Other verifiers bound their errors over the rounds of one moment.
                found.unfinished = isinstance(self.verifier, ReplayTopN)
                break
            proposals = self._propose(living, found, step)
            if not proposals:
                break
            fresh = self._screen(proposals, living, found, step)
            if fresh and not self._try(fresh, trial, found, step, most - found.rounds):
                break
        return found

    def admit(self, step: int, offspring: Offspring) -> None:
        """Lets the admitted live, beside whom they leave; the generation ends, or goes on later."""
        self.selection.remember(offspring.candidate_stats)
        if offspring.admitted:
            self.selection.keep_only(step, offspring.kept)
            admitted = [result.candidate for result in offspring.admitted]
            self.selection.admit(step, admitted, offspring.answers, offspring.expected)
        if offspring.unfinished:
            offspring.unfinished = self.requests.go_on(step, offspring.left)
        if not offspring.unfinished:
            self.requests.begin_anew(step)
            return
        self.requests.start(step, offspring.parents)

    def _propose(
        self, living: Sequence[CandidateStats], found: Offspring, step: int
    ) -> Sequence[Proposal]:
        request = self.requests.make(found.parents, living, found.places, step)
        found.asked = True
        proposals: list[Proposal] = []
        try:
            proposals = list(islice(self.requests.proposer.propose(request), _MOST_PROPOSALS))
            for proposal in proposals:
                if not isinstance(proposal, Proposal):
                    raise TypeError(f"it returned {proposal!r}; required: Proposal objects")
            found.obstacle = "" if proposals else "the proposer proposed nothing"
        except Exception as error:  # a proposer's failure must never end a training run
            proposals = []
            found.obstacle = f"the proposer failed ({format_error(error)})"
            found.proposer_failures += 1
            reason = format_error_with_place(error)
            self.log.append(Notice(step, f"the proposer failed, training goes on: {reason}"))
        self.requests.report(step)
        name = self.requests.proposer.name
        return [replace(proposal, proposer=proposal.proposer or name) for proposal in proposals]

    def _screen(
        self,
        proposals: Sequence[Proposal],
        living: Sequence[CandidateStats],
        found: Offspring,
        step: int,
    ) -> list[Candidate]:
        found.rounds += 1
        found.proposed += len(proposals)
        known = [one.candidate for one in living]
        known += [one.candidate for one in found.admitted]
        asked_for = self.requests.asked_about
        leader = found.parents[0].candidate
        first = asked_for[0] if asked_for and found.rounds == 1 else leader
        dead = [*(stats.candidate for stats in self.selection.history), *asked_for]
        fresh = self.screening.screen(proposals, known, first, step, dead)
        for event in self.screening.events:
            self.log.append(event)
        found.findings += self.screening.findings
        if not fresh:
            why = summarise(found.findings)
            found.obstacle = f"screening refused all {found.proposed}: {why}"
        return fresh

    def _try(
        self,
        fresh: Sequence[Candidate],
        trial: TrialRollouts,
        found: Offspring,
        step: int,
        rounds_left: int,
    ) -> bool:
        """Verifies, and admits some; returns whether another round may follow."""
        if not step:
            found.tried += len(fresh)
            untried = [
                VerificationResult(one, None, None, 0, admitted=True)
                for one in fresh[: found.places]
            ]
            found.admitted += untried
            found.places -= len(untried)
            return True
        if self.requests.verified and not len(self.screening.replay):
            self._give_up(found, step, "no rollout of the training had a reward yet")
            return False
        before = len(trial.answers)
        try:
            verification = self._verify(fresh, trial, found, rounds_left)
        except NoRoomError as error:
            found.cut = True
            self.log.append(Notice(step, str(error)))
            return False
        self._learn(verification, trial, before, found, step)
        rewards = [one.reward for one in verification.trajectories]
        if rewards and not any(reward is not None for reward in rewards):
            why = f"none of the {len(rewards)} rollouts of the verification had a reward"
            self._give_up(found, step, why)
            return False
        found.tried += len(fresh)
        return True

    def _give_up(self, found: Offspring, step: int, why: str) -> None:
        found.obstacle = why
        self.log.append(Notice(step, f"nobody could be verified, so nobody is admitted: {why}"))

    def _verify(
        self,
        fresh: Sequence[Candidate],
        trial: TrialRollouts,
        found: Offspring,
        rounds_left: int,
    ) -> Verification:
        request = VerificationRequest(
            fresh,
            found.parents,
            self.screening.replay,
            trial,
            found.places,
            self.selection.rng,
            tuple(found.verifications),
            rounds_left,
        )
        started = time.perf_counter()
        try:
            with naming("verifier", self.verifier, trial.errors):
                verification = self.verifier.verify(request)
                _require_sound(verification, fresh, found.places)
            return verification
        finally:
            trial.seconds += time.perf_counter() - started

    def _learn(
        self,
        verification: Verification,
        trial: TrialRollouts,
        before: int,
        found: Offspring,
        step: int,
    ) -> None:
        """Takes in what a round has shown, for the next request too, and tells proposer and log."""
        answers = trial.answers[before:]
        readable = {
            place: (one.candidate.id, one.question.id, one.rollout, one.reward)
            for place, one in enumerate(answers)
            if one.turns and one.reward is not None
        }
        config = self.config
        chosen = worth_reading(readable, config.failure_threshold, config.failures_per_request)
        self.screening.replay.add_verification(step, [answers[place] for place in sorted(chosen)])
        found.verifications.append(verification)
        for notice in (verification.notice, _told_nobody_apart(verification)):
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
        if excerpts := answers_of(shown):
            self.log.append(Shown(step, excerpts))


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


def _told_nobody_apart(verification: Verification) -> str:
    """A notice where children were admitted although all rewards were the same."""
    admitted = sum(result.admitted for result in verification.results)
    rewards = [one.reward for one in verification.trajectories if one.reward is not None]
    if not admitted or len(set(rewards)) != 1:
        return ""
    return (
        f"verification told nobody apart: all {len(rewards)} rewards were {rewards[0]:g}, and "
        f"{admitted} of {len(verification.results)} candidates were admitted all the same; ask "
        "more questions (verify_questions), or questions that are neither too hard nor too easy"
    )
