"""One generation: propose, screening, verify, admit; repeated until the population is full.

"Generation" is one such cycle here, never the sampling of text by a model.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import islice

from pydantic import JsonValue, TypeAdapter

from evoprompt.candidates import Screening, summarise
from evoprompt.config import EngineConfig
from evoprompt.eventlog import EventLog
from evoprompt.events import Notice, Shown, Verified
from evoprompt.faults import naming
from evoprompt.replay import ReplayBuffer, worth_reading
from evoprompt.roles import (
    ProposalRequest,
    Proposer,
    RolloutFn,
    VerificationRequest,
    Verifier,
)
from evoprompt.schedule import Unfilled
from evoprompt.screening import Finding
from evoprompt.summaries import answers_of
from evoprompt.text import told, told_with_place
from evoprompt.types import (
    Assignment,
    Candidate,
    CandidateStats,
    Proposal,
    Setting,
    Trajectory,
    Verification,
    VerificationResult,
)
from evoprompt.verifiers import ReplayTopN

_IN_A_ROW = 3  # failed generations that are no longer bad luck
_MOST_PROPOSALS = 1_000  # of one request; a generator may have no end
_TO_CHOOSE_FROM = 8  # times as many failures as are shown are handed over for each parent


class _NoRoomError(Exception):
    """Says that a verification does not fit into the budget."""

    def __init__(self, needed: int, left: int) -> None:
        super().__init__(
            f"no verification: it needs {needed} more rollouts and the budget has {left}; nobody "
            "is admitted, training goes on; evolve earlier (evolve_until), ask fewer questions "
            "(verify_questions) or raise the budget"
        )


@dataclass(slots=True)
class Offspring:
    """What one generation brought forth.

    Attributes:
        admitted: results of the candidates to admit, in order of admission.
        candidate_stats: what verification showed of all that were scored.
        answers: trajectories of the verification, parents' included.
        expected: mean rewards per candidate id, where a verifier expects others than it measured.
        verifications: what the verifier found, a round each.
        asked: whether the proposer was asked at all.
        rounds: propose-verify rounds made.
        proposed: proposals received, rejected ones included.
        tried: candidates that passed screening and could be verified.
        proposer_failures: times the proposer raised or returned something else than proposals.
        findings: of screening, against the others.
        obstacle: why nobody could be tried in the last round; empty if somebody was.
        rollouts: verification rollouts spent.
        seconds: time spent inside the rollouts.
        cut: whether the budget had no room for the last verification.
        before: what is left of the generation that this goes on with, at a later step.
        unfinished: whether it can go on at a later step, since the proposer is not waited for.
    """

    admitted: list[VerificationResult] = field(default_factory=list)
    candidate_stats: list[CandidateStats] = field(default_factory=list)
    answers: list[Trajectory] = field(default_factory=list)
    expected: dict[str, float] = field(default_factory=dict)
    verifications: list[Verification] = field(default_factory=list)
    asked: bool = False
    rounds: int = 0
    proposed: int = 0
    tried: int = 0
    proposer_failures: int = 0
    findings: list[Finding] = field(default_factory=list)
    obstacle: str = ""
    rollouts: int = 0
    seconds: float = 0.0
    cut: bool = False
    before: Unfilled | None = None
    unfinished: bool = False

    @property
    def begins(self) -> bool:
        """Whether a generation began with it."""
        return self.asked and self.before is None

    @property
    def failure(self) -> str:
        """Why the generation failed (:class:`GenerationStats`); empty if it did not, or goes on."""
        return self.obstacle if self.asked and not self._ever_tried and not self.unfinished else ""

    @property
    def refused(self) -> bool:
        """Whether the generation has ended, and all that were tried were turned away."""
        ever_admitted = self.admitted or (self.before is not None and self.before.admitted)
        return self._ever_tried and not ever_admitted and not self.cut and not self.unfinished

    @property
    def _ever_tried(self) -> bool:
        return self.tried > 0 or (self.before is not None and self.before.tried > 0)

    def left(self, places: int) -> Unfilled:
        """What is left of the generation where so many ``places`` are."""
        before = self.before or Unfilled(rounds=0, tried=0, admitted=0, places=places)
        return Unfilled(
            rounds=before.rounds + self.rounds,
            tried=before.tried + self.tried,
            admitted=before.admitted + len(self.admitted),
            places=places,
        )


@dataclass(slots=True)
class GenerationStats:
    """How the generations of a run ended; counts that survive a resume.

    A generation *failed* when its proposer was asked and nobody was admitted because there was
    nobody to try: the proposer raised, proposed nothing, or screening refused all that it proposed.
    When candidates were tried and verification turned all of them away, the generation was
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
        """Counts a generation, or a part of one, that took place at engine step ``step``.

        Returns:
            What a person should be warned of: the first failure, and three in a row; else empty.
        """
        self.generations += offspring.begins
        self.generations_refused += offspring.refused
        self.proposer_failures += offspring.proposer_failures
        self.admitted_total += len(offspring.admitted)
        if not offspring.failure:
            self.failed_in_a_row = 0
            return ""
        self.generations_failed += 1
        self.failed_in_a_row += 1
        self.last_failure = offspring.failure
        told = f"{offspring.failure}; training goes on under the instructions it has"
        if self.failed_in_a_row == _IN_A_ROW:
            return f"{_IN_A_ROW} generations in a row failed, the last at step {step}: {told}"
        if self.generations_failed == 1:
            return f"the generation at step {step} failed: {told}"
        return ""

    def metrics(self) -> dict[str, float]:
        """The counts of the whole run."""
        return {
            "generations": float(self.generations),
            "generations_failed": float(self.generations_failed),
            "generations_refused": float(self.generations_refused),
            "proposer_failures": float(self.proposer_failures),
            "admitted_total": float(self.admitted_total),
        }

    def state_dict(self) -> dict[str, JsonValue]:
        """All counts."""
        return asdict(self)

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        names = [one.name for one in fields(self)]
        saved = _STATS.validate_python({name: state[name] for name in names})
        for name in names:
            setattr(self, name, getattr(saved, name))


_STATS = TypeAdapter(GenerationStats)


class GenerationRunner:
    """Turns parents into verified offspring (paper Algorithm 1, the evolution step).

    Args:
        proposer: writes texts.
        screening: lets them become candidates before a rollout is spent.
        verifier: rolls the candidates out.
        config: the engine's numbers.
        replay: failures to learn from and questions to verify on.
        rng: the engine's generator.
        required: substrings every instruction must keep.
        log: takes the events.

    Attributes:
        setting: what stands around an instruction, as far as somebody told.
    """

    def __init__(
        self,
        proposer: Proposer,
        screening: Screening,
        verifier: Verifier,
        config: EngineConfig,
        replay: ReplayBuffer,
        rng: random.Random,
        required: Sequence[str],
        log: EventLog,
    ) -> None:
        self.proposer = proposer
        self.screening = screening
        self.verifier = verifier
        self.config = config
        self.replay = replay
        self.rng = rng
        self.required = tuple(required)
        self.log = log
        self.setting = Setting()

    def report(self, step: int) -> None:
        """Logs what the proposer has to tell a person."""
        with naming("proposer", self.proposer):
            notices = self.proposer.notices()
        for message in notices:
            self.log.append(Notice(step, message))

    @property
    def verifies(self) -> bool:
        """Whether the verifier rolls candidates out; else it takes those that it gets."""
        return self.verifier.most_rollouts(2, 1) != 0

    def wanted(self, places: int, step: int) -> int:
        """How many proposals to ask for: two for each place where half of them are turned away."""
        each = 2 if step and self.verifies else 1
        return self.config.proposals_per_round or places * each

    def most_rollouts(self, proposed: int) -> int:
        """Most rollouts of a round that tries so many, with those of a best that is dead."""
        config = self.config
        most = self.verifier.most_rollouts(proposed, config.parents)
        if most is None:
            most = config.verify_questions * (proposed + config.parents)
        return most + (config.verify_questions if most else 0)

    def request(
        self,
        parents: Sequence[CandidateStats],
        places: int,
        step: int,
        history: Sequence[CandidateStats],
        living: Sequence[CandidateStats],
    ) -> ProposalRequest:
        """What the proposer is asked: to improve ``parents``, given their latest failures."""
        count = self.wanted(places, step)
        ids = {parent.candidate.id for parent in parents}
        shown = self.config.failures_per_request
        found = self.replay.failures(shown * _TO_CHOOSE_FROM * len(ids), self.rng, ids)
        # From what has no text nothing is learnt: it only fills up where there is too little else.
        failures = [one for place, one in enumerate(found) if one.turns or place < shown]
        return ProposalRequest(
            count,
            parents,
            failures,
            history,
            self.rng,
            step,
            self.required,
            failures_per_request=shown,
            successes=self.replay.successes(failures),
            living=living,
            refusals=[f"{one.rule}: {one.reason}" for one in self.screening.findings],
            max_tokens=self._max_tokens(),
            setting=self.setting,
        )

    def _max_tokens(self) -> int:
        """Most tokens that a proposal may have beside the longest question known."""
        limits = self.screening.limits
        if limits.max_prompt_tokens is None:
            return limits.max_tokens
        asked = (limits.count_tokens(record.question.text) for record in self.replay.records)
        room = limits.max_prompt_tokens - max(asked, default=0)
        return max(min(limits.max_tokens, room), 1)

    def breed(
        self,
        parents: Sequence[CandidateStats],
        living: Sequence[CandidateStats],
        places: int,
        step: int,
        history: Sequence[CandidateStats],
        rollout: RolloutFn,
        waits: bool = True,
        room: int | None = None,
        asked_for: Sequence[Candidate] = (),
        before: Unfilled | None = None,
    ) -> Offspring:
        """Offspring for up to ``places`` places, from at most ``verify_rounds`` rounds.

        No rollouts are asked for beyond ``room``: the generation ends instead. What was proposed
        ahead descends from those it was ``asked_for``, alive or not.

        At the very start there is nothing to verify on: what passes screening is admitted
        unmeasured. Later, nobody is where nothing can be measured, and the generation ends. A
        proposer that is still thinking is waited for, or else the generation goes on at a later
        step, with what was left ``before``.
        """
        if before is None:
            self.screening.begin_generation()
        found = Offspring(before=before)
        most = self.config.verify_rounds - (before.rounds if before else 0)
        while len(found.admitted) < places and found.rounds < most:
            if not waits and not self.proposer.ready:
                # Other verifiers bound their errors over the rounds of one moment.
                found.unfinished = isinstance(self.verifier, ReplayTopN)
                break
            slots = places - len(found.admitted)
            request = self.request(parents, slots, step, history, living)
            found.asked = True
            proposals = self._ask_proposer(request, found)
            self.report(step)
            if not proposals:
                break
            found.rounds += 1
            found.proposed += len(proposals)
            known = [one.candidate for one in living]
            known += [one.candidate for one in found.admitted]
            first = parents[0].candidate if found.rounds > 1 or not asked_for else asked_for[0]
            dead = [*(stats.candidate for stats in history), *asked_for]
            fresh = self.screening.screen(proposals, known, first, step, dead)
            found.findings += self.screening.findings
            if not fresh:
                why = summarise(found.findings)
                found.obstacle = f"screening refused all {found.proposed}: {why}"
                continue
            found.obstacle = ""
            if not step:
                found.tried += len(fresh)
                found.admitted += [
                    VerificationResult(candidate, None, None, 0, admitted=True)
                    for candidate in fresh[:slots]
                ]
                continue
            if self.verifies and not len(self.replay):
                self._give_up(found, step, "no rollout of the training had a reward yet")
                break
            try:
                left = most - found.rounds
                verification = self._verify(fresh, parents, rollout, slots, found, room, left, step)
            except _NoRoomError as error:
                found.cut = True
                self.log.append(Notice(step, str(error)))
                break
            self._record(verification, found, step)
            rewards = [trajectory.reward for trajectory in verification.trajectories]
            if rewards and not any(reward is not None for reward in rewards):
                why = f"none of the {len(rewards)} rollouts of the verification had a reward"
                self._give_up(found, step, why)
                break
            found.tried += len(fresh)
        return found

    def _give_up(self, found: Offspring, step: int, why: str) -> None:
        found.obstacle = why
        self.log.append(Notice(step, f"nobody could be verified, so nobody is admitted: {why}"))

    def _ask_proposer(self, request: ProposalRequest, found: Offspring) -> Sequence[Proposal]:
        try:
            proposals = list(islice(self.proposer.propose(request), _MOST_PROPOSALS))
            for proposal in proposals:
                if not isinstance(proposal, Proposal):
                    raise TypeError(f"it returned {proposal!r}; required: Proposal objects")
        except Exception as error:  # a proposer's failure must never end a training run
            found.obstacle = f"the proposer failed ({told(error)})"
            found.proposer_failures += 1
            reason = told_with_place(error)
            self.log.append(
                Notice(request.step, f"the proposer failed, training goes on: {reason}")
            )
            return []
        if not proposals:
            found.obstacle = "the proposer proposed nothing"
        name = self.proposer.name
        return [replace(proposal, proposer=proposal.proposer or name) for proposal in proposals]

    def _verify(
        self,
        fresh: Sequence[Candidate],
        parents: Sequence[CandidateStats],
        rollout: RolloutFn,
        slots: int,
        found: Offspring,
        room: int | None,
        rounds_left: int,
        step: int,
    ) -> Verification:
        """The verifier's findings; what it spends is counted even if it fails afterwards.

        Raises:
            _NoRoomError: it asks for more rollouts than there is room for.
        """
        passed_on: list[Exception] = []

        def spend(assignments: Sequence[Assignment], /) -> Sequence[Trajectory]:
            needed = sum(assignment.rollouts for assignment in assignments)
            try:
                if room is not None and found.rollouts + needed > room:
                    raise _NoRoomError(needed, room - found.rollouts)
                trajectories = rollout(assignments)
                for trajectory in trajectories:
                    trajectory.require_finite()
            except Exception as error:  # the trainer's, not the verifier's
                passed_on.append(error)
                raise
            found.rollouts += len(trajectories)
            self._remember(trajectories, step)
            return trajectories

        request = VerificationRequest(
            fresh,
            parents,
            self.replay,
            spend,
            slots,
            self.rng,
            tuple(found.verifications),
            rounds_left,
        )
        started = time.perf_counter()
        try:
            with naming("verifier", self.verifier, passed_on):
                verification = self.verifier.verify(request)
                _require_sound(verification, fresh, slots)
            return verification
        finally:
            found.seconds += time.perf_counter() - started

    def _remember(self, trajectories: Sequence[Trajectory], step: int) -> None:
        """Keeps for the next request what a person would read of a verification."""
        kept = {
            index: (one.candidate.id, one.question.id, one.rollout, one.reward)
            for index, one in enumerate(trajectories)
            if one.turns and one.reward is not None
        }
        chosen = worth_reading(
            kept, self.config.failure_threshold, self.config.failures_per_request
        )
        self.replay.add_verification(step, [trajectories[index] for index in sorted(chosen)])

    def _record(self, verification: Verification, found: Offspring, step: int) -> None:
        found.verifications.append(verification)
        for notice in (verification.notice, _told_nobody_apart(verification)):
            if notice:
                self.log.append(Notice(step, notice))
        with naming("proposer", self.proposer):
            self.proposer.feedback(verification.results)
        for result in verification.results:
            if result.admitted:
                found.admitted.append(result)
            else:
                self.screening.turn_away(result.candidate)
            if result.mean is not None:
                weight = result.mean if result.expected is None else result.expected
                found.candidate_stats.append(
                    CandidateStats(result.candidate, weight, groups=result.scored)
                )
        for result in (*verification.parents, *verification.results):
            if result.expected is not None:
                found.expected[result.candidate.id] = result.expected
        found.answers += verification.trajectories
        self._tell(verification, found.rounds, step)

    def _tell(self, verification: Verification, number: int, step: int) -> None:
        for results, is_parent in ((verification.parents, True), (verification.results, False)):
            for result in results:
                self.log.append(
                    Verified(
                        step,
                        result.candidate.id,
                        number,
                        result.mean,
                        result.stderr,
                        result.scored,
                        result.admitted,
                        result.reason,
                        is_parent,
                    )
                )
        tried = {result.candidate.id for result in verification.results}
        answers = [one for one in verification.trajectories if one.candidate.id in tried]
        if excerpts := answers_of(answers):
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
