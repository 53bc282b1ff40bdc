"""The engine: ask, tell, evolve. It orchestrates the roles of ``roles.py`` and does no maths.

One process owns it (rank 0, or the veRL driver). It is synchronous and deterministic given its
seed and inputs, and knows nothing of trainers, torch or HTTP.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from pydantic import BaseModel, Field, JsonValue, NonNegativeInt

from evoprompt.builtins import attributor_of, sampler_of, verifier_of
from evoprompt.config import MOST_PER_QUESTION, EngineConfig, Grouping
from evoprompt.generation import Generations, Offspring
from evoprompt.log import events
from evoprompt.log.assignments import AssignmentTracker
from evoprompt.log.eventlog import EventLog
from evoprompt.log.summaries import (
    FailureWatch,
    RewardWatch,
    rollout_events,
    rollouts_to_log,
    summarise_ask,
    summarise_tell,
)
from evoprompt.plugins import require_type
from evoprompt.populations import SteadyPopulation
from evoprompt.proposers.combinators import NoProposer
from evoprompt.proposing import ProposalRequests, ProposerState
from evoprompt.replay import ReplayBuffer
from evoprompt.roles import (
    Attributor,
    Population,
    Proposer,
    RolloutFn,
    Selector,
    Verifier,
)
from evoprompt.rules import Rule
from evoprompt.screening import Screening, Seed, usable_seeds
from evoprompt.selection import Selection
from evoprompt.selectors import Deap
from evoprompt.support.calls import calling, naming
from evoprompt.support.errors import InputError, StateError, warn
from evoprompt.support.leads import MIN_GROUPS, describe_best
from evoprompt.types import (
    Assignment,
    Candidate,
    CandidateStats,
    EvolveReport,
    Proposal,
    Question,
    StepReport,
    TaskContext,
    TextLimits,
    Trajectory,
    VerificationResult,
)
from evoprompt.verifiers import VerificationRollouts

VERSION = 19
"""Version of the saved state; another one is refused."""

_SENTENCES = 32  # that an event tells of, the clearest ones

_BROKEN = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class ApprovalPolicy(Protocol):
    """Approval of candidates by a person: :class:`evoprompt.hosting.requests.ApprovalQueue`."""

    def poll(self) -> None:
        """Carry out the requests of a person, after each step."""

    def filter_approved(self, admitted: Sequence[VerificationResult]) -> list[VerificationResult]:
        """Return the candidates that the person approves."""


class _Stateful(Protocol):
    def state_dict(self) -> dict[str, JsonValue]: ...

    def load_state_dict(self, state: Mapping[str, JsonValue], /) -> None: ...


class _EngineState(BaseModel):
    """An engine as JSON values; its events are on the disk."""

    version: int
    step: NonNegativeInt
    training_rollouts: NonNegativeInt
    verification_rollouts: NonNegativeInt
    evolution_due: bool
    events: NonNegativeInt
    log: str = Field("", description="fingerprint of the events, where they are in a log_dir")
    rng: tuple[int, tuple[int, ...], float | None]
    parts: dict[str, dict[str, JsonValue]]


class Engine:
    """Engine that evolves a population of instructions beside a policy.

    A *step* is one ``tell``: the trajectories of one training step.

    Args:
        seeds: the first candidates, each a text, a mapping of components, or a ``Proposal`` whose
            rationale says where it comes from; at least one.
        proposer: writes new candidates; None keeps the seeds (a static instruction when there is
            one of them).
        config: the numbers; the default preset if not given.
        seed: seeds all randomness of the engine.
        log: takes the events; in memory if not given.
        required: substrings every instruction must hold, such as protocol tags.
        sampler: draws the candidate of each question; ``Softmax(config.reward_temperature)``.
        survivor: keeps candidates when pruning; ``Deap("best")``.
        parent_selector: picks the candidates to improve; ``Deap("best")``.
        attributor: estimates weights and leads; ``Adjusted()``, or what ``config.weights`` says.
        verifier: decides about proposals; what ``config.accept`` says, ``InTraining()`` by default.
        population: ``SteadyPopulation()``.
        rules: of screening, each a function; ``default_rules()``.

    Attributes:
        population: its members.
        proposer: writes new candidates.
        is_static: whether nothing is ever proposed, as there was no proposer.
        generation_stats: how the generations ended so far.
        budget: most rollouts to spend, verification included; None for no end. A verification
            that would go beyond it is not begun. ``evoprompt run`` sets it.
        waits: whether ``evolve`` waits for a proposer that is still thinking. Adapters switch it
            off while they are attached: a trainer has something better to do.
        has_groups: whether extra rollouts are made of whole groups, as many of a question as in
            training. Adapters switch it on: reward code may compare the rollouts of a group.
        evolution_due: whether ``evolve`` has something to do.
        supervisor: where a person has a say; None for no person.

    Raises:
        InputError: there is no seed, more than N of them, two alike, or one lacks a required tag;
            or an argument is of a wrong type, such as a component's name or class.
    """

    def __init__(
        self,
        seeds: Sequence[Seed],
        *,
        proposer: Proposer | None = None,
        config: EngineConfig | None = None,
        seed: int = 0,
        log: EventLog | None = None,
        required: Sequence[str] = (),
        sampler: Selector | None = None,
        survivor: Selector | None = None,
        parent_selector: Selector | None = None,
        attributor: Attributor | None = None,
        verifier: Verifier | None = None,
        population: Population | None = None,
        rules: Sequence[Rule] | None = None,
    ) -> None:
        for name, component, *kinds in (
            ("config", config, EngineConfig),
            ("seed", seed, int),
            ("log", log, EventLog),
            ("rules", rules, list, tuple),
            ("required", required, list, tuple),
            ("proposer", proposer, Proposer),
            ("population", population, Population),
            ("attributor", attributor, Attributor),
            ("verifier", verifier, Verifier),
            ("sampler", sampler, Selector),
            ("survivor", survivor, Selector),
            ("parent_selector", parent_selector, Selector),
        ):
            require_type(name, component, *kinds)
        self.config = config = config or EngineConfig()
        self.log = log = EventLog() if log is None else log
        self.rng = random.Random(seed)
        self.replay = ReplayBuffer(config.replay_capacity, config.failure_threshold)
        self.screening = Screening(rules, self.replay, required)
        self.selection = Selection(
            config,
            SteadyPopulation() if population is None else population,
            attributor_of(config) if attributor is None else attributor,
            sampler_of(config) if sampler is None else sampler,
            Deap("best") if survivor is None else survivor,
            Deap("best") if parent_selector is None else parent_selector,
            self.rng,
            log,
        )
        verifier = verifier_of(config) if verifier is None else verifier
        if not 0 <= verifier.share < 1:
            raise InputError(
                f"the share of the verifier {type(verifier).__name__} is {verifier.share}; "
                "required: 0, or a part of the training rollouts below 1; correct it"
            )
        if verifier.share and not self.selection.attributor.has_standard_errors:
            raise InputError(
                f"the verifier {type(verifier).__name__} decides in training, and the attributor "
                f"{type(self.selection.attributor).__name__} has no standard errors; required: an "
                "attributor that estimates them, or a verifier with rollouts of its own; set "
                "accept to 'not-worse', or give verifier=ReplayTopN()"
            )
        if verifier.share and proposer is not None and config.unmeasured == "explore":
            self.selection.min_groups = max(config.min_groups, MIN_GROUPS)
        self.requests = ProposalRequests(
            config,
            self.selection,
            self.screening,
            NoProposer() if proposer is None else proposer,
            verifier,
            log,
        )
        self.generations = Generations(
            config, self.requests, self.selection, self.screening, verifier, log
        )
        self.population = self.selection.population
        self.proposer = self.requests.proposer
        self.is_static = proposer is None
        self.generation_stats = self.generations.stats
        self.assignments = AssignmentTracker()
        self.reward_watch = RewardWatch()
        self.failure_watch = FailureWatch()
        self._undivided = ""
        self._shared_out = False
        self.supervisor: ApprovalPolicy | None = None
        self.waits = True
        self.has_groups = False
        self.budget: int | None = None
        self.step = 0
        self.training_rollouts = 0
        self.verification_rollouts = 0
        self.engine_seconds = 0.0
        self.verify_seconds = 0.0
        self._add_seeds(usable_seeds(seeds, config.population_size, required))

    def _add_seeds(self, seeds: Sequence[Proposal]) -> None:
        """Add the seeds; schedule an initial generation if places are filled at the start."""
        continued = len(self.log) > 0  # the seeds are in there already; a state is to follow
        for seeded in seeds:
            candidate = self.screening.seed(seeded)
            self.selection.add(candidate)
            first = events.Seeded(0, candidate.id, candidate.components, candidate.rationale)
            (self.log.show if continued else self.log.append)(first)
        self.evolution_due = (
            self.config.fill_at_start
            and not self.is_static
            and len(self.selection.members) < self.config.population_size
        )

    # ------------------------------------------------------------------------------ what is known

    @property
    def failure_reason(self) -> str:
        """Return why nothing evolved: all generations failed, or no request was answered.

        Empty otherwise, also while no generation was due.
        """
        stats = self.generation_stats
        if stats.all_failed:
            count, reason = stats.generations, stats.last_failure
            return f"all of {count} generations failed, the last because {reason}"
        if not stats.generations and self.requests.is_late:
            return "the proposer was called and has not returned"
        return ""

    @property
    def limits(self) -> TextLimits:
        """Return the limits of the policy's tokenizer and context; adapters set them."""
        return self.screening.limits

    @limits.setter
    def limits(self, limits: TextLimits) -> None:
        self.screening.limits = limits

    @property
    def setting(self) -> TaskContext:
        """Return the context of an instruction; adapters set it, and proposers read it."""
        return self.requests.setting

    @setting.setter
    def setting(self, setting: TaskContext) -> None:
        self.requests.setting = setting

    @property
    def rollouts(self) -> int:
        """Return the rollouts spent so far, verification included."""
        return self.training_rollouts + self.verification_rollouts

    def candidate_stats(self) -> list[CandidateStats]:
        """Return the members with their weights, oldest first.

        Under ``unmeasured="explore"`` unmeasured members have the mean weight of the measured ones.
        """
        return self.selection.candidate_stats()

    @property
    def best(self) -> Candidate:
        """Return the incumbent: the member that is expected to be the best.

        It is the first seed until another member leads at odds of 2 : 1. It is always a member of
        the population, a text that the policy is being trained under. :meth:`best_statement` says
        whether it is shown to be better than the first instruction.
        """
        return self.selection.incumbent

    def best_statement(self) -> str:
        """Return a sentence: whether ``best`` is shown to be better than the first instruction."""
        best, first = self.best, self.selection.first
        return describe_best(best.id, first.id, self.selection.is_best_shown)

    def metrics(self) -> dict[str, float]:
        """Finite numbers about population, rollouts, generations and proposer, by name."""
        candidate_stats = self.candidate_stats()
        weights = {stats.candidate.id: stats.weight for stats in candidate_stats}
        values = {
            "population_size": float(len(candidate_stats)),
            "best_weight": weights[self.best.id],
            "training_rollouts": float(self.training_rollouts),
            "verification_rollouts": float(self.verification_rollouts),
            "rollouts_failed": float(self.failure_watch.failed),
            **self.generation_stats.metrics(),
        }
        with naming("proposer", self.proposer, self.log.report_wait):
            values["proposer_failures"] += self.proposer.failures_caught
            totals = self.proposer.metrics()
        return values | {f"proposer/{name}": number for name, number in totals.items()}

    def check(self, probe: bool = False) -> None:
        """Check that the proposer can work here, as far as it is known without a request.

        Args:
            probe: also send one request to the service behind it. Adapters do so when they attach,
                on the process that owns the engine.

        Raises:
            InputError: the proposer cannot work.
        """
        with calling("proposer", self.proposer, self.log.report_wait):
            self.proposer.check(probe)

    @property
    def grouping(self) -> Grouping:
        """Return the unit that shares a baseline; under ``"auto"`` that is the question."""
        several = self.selection.candidates_per_question > 1
        shared = self.config.candidates_per_question == "auto" and several
        return "question" if shared else self.config.grouping

    def divide_rollouts(
        self, rollouts: int, setting: str, *, several: bool = True, compared: bool = True
    ) -> int:
        """Set the number of candidates of a question; adapters call it when they attach.

        Args:
            rollouts: rollouts of a question in a step.
            setting: the trainer's name for that number.
            several: whether the trainer can roll out a question under several candidates.
            compared: whether the trainer compares rollouts that share a baseline, so that two are
                needed.

        Returns:
            Rollouts of each candidate.

        Raises:
            InputError: the rollouts cannot be divided as the configuration says.
        """
        config = self.config
        self._shared_out = True
        rollouts_each = config.rollouts_per_candidate(rollouts, setting, compared)
        auto, self._undivided = config.candidates_per_question == "auto", ""
        if auto and (not several or (self.is_static and len(self.selection.members) == 1)):
            rollouts_each = rollouts
        elif auto and rollouts_each == rollouts and not self.is_static:
            self._undivided = (
                f"{setting} is {rollouts}, which no number from 2 to {MOST_PER_QUESTION} divides: "
                "each question has one instruction, so that little is learnt of which is better; "
                "take a multiple of 5 (best) or of 4, or one of 2 or 3"
            )
        self.selection.candidates_per_question = rollouts // rollouts_each
        return rollouts_each

    # --------------------------------------------------------------------------------- ask, tell

    def ask(
        self, questions: Sequence[Question], rollouts: int, *, step_of: int | None = None
    ) -> list[Assignment]:
        """Return assignments in the order of the questions, one for each candidate of a question.

        A question has ``config.candidates_per_question`` candidates. Under ``"auto"`` an adapter
        has said how many rollouts a question has (:meth:`divide_rollouts`); without an adapter it
        is one candidate.

        Args:
            questions: the batch, at least one.
            rollouts: trajectories of each assignment, at least 1.
            step_of: questions of a whole step, if a step consists of several calls. Candidates that
                are assigned already count as measured then, so that unmeasured ones take turns.

        Raises:
            InputError: ``rollouts`` is less than 1, there is no question, or admissions wait for
                an answer that nobody can give.
        """
        if rollouts < 1 or not questions:
            raise InputError(
                f"{rollouts} rollouts of {len(questions)} questions were requested; required: at "
                "least one of each; check the batch the trainer hands over"
            )
        if self.config.approve.mode == "ask" and self.supervisor is None:
            location = "in memory" if self.log.path is None else f"in {self.log.path}"
            raise InputError(
                f"approve is 'ask', but the events of this engine are kept {location} and it reads "
                "no answers; required: attach(..., log_dir=DIR), or log=EventLog(PATH) and "
                "evoprompt.hosting.requests.supervise(engine)"
            )
        started = time.perf_counter()
        trials = self.generations.trials
        trials.questions = step_of or len(questions)
        trials.rollouts = rollouts * self.selection.candidates_per_question
        if not self.step and not self.is_static and self._shared_out and self._undivided:
            self.log.notice(self.step, self._undivided)
        questions = [self.replay.intern_question(question) for question in questions]
        candidate_stats = self.candidate_stats()
        if step_of is not None:
            pending = self.assignments.count_pending
            candidate_stats = [
                replace(stats, groups=stats.groups + pending(stats.candidate.id))
                for stats in candidate_stats
            ]
        share = self.generations.verifier.share
        candidates = self.selection.draw(candidate_stats, len(questions), trials.candidates, share)
        assignments = self.assignments.issue(
            questions, candidates, rollouts, self.grouping, self.step
        )
        chances = self.selection.chances(candidate_stats)
        event = summarise_ask(self.step + 1, candidate_stats, chances, candidates, rollouts)
        self.log.append(event)
        self.engine_seconds += time.perf_counter() - started
        return assignments

    def tell(self, trajectories: Sequence[Trajectory]) -> StepReport:
        """Complete a step: attribute the rewards, store the trajectories, prune when due.

        Results may be partial and out of order; a late trajectory counts for the step of this call.
        Trajectories without a reward, and those of candidates that were pruned in the meantime, are
        counted but not attributed.

        Raises:
            UnknownAssignmentError: an assignment was never given by this engine.
            AlreadyToldError: a trajectory came before, or twice in this call, or its assignment is
                so old (100 steps) that it is forgotten.
            InputError: a reward or metric is NaN or infinite, or a rollout index is out of range.
                After any of these errors the engine is as it was before the call.
        """
        started = time.perf_counter()
        self.assignments.receive(trajectories)
        self.step += 1
        self.training_rollouts += len(trajectories)
        members = {member.id for member in self.selection.members}
        used = members | {candidate.id for candidate in self.generations.trials.candidates}
        counted = [trajectory for trajectory in trajectories if trajectory.candidate.id in used]
        self.selection.observe(self.step, counted)
        self.generations.trials.observe(counted)
        self.replay.add(self.step, trajectories)
        self.assignments.forget_stale(self.step)
        summary = summarise_tell(self.step, self.rollouts, trajectories, self.candidate_stats())
        self.log.append(summary)
        for event in rollout_events(
            self.step, trajectories, rollouts_to_log(trajectories, self.step)
        ):
            self.log.append(event)
        before = [member.id for member in self.selection.members]
        if not self.is_static and self.config.prunes_at(self.step):
            self.selection.halve(self.step)
        if self.supervisor is not None:
            self.supervisor.poll()
        self._decide_trials()
        self._schedule_generation()
        self._log_end_of_evolution()
        self.engine_seconds += time.perf_counter() - started
        message, is_warning = self.failure_watch.observe(self.step, trajectories)
        if is_warning:
            self.log.notice(self.step, message)
        elif message:
            self.log.append(events.Notice(self.step, message))
        if not self.is_static:
            for message in self.reward_watch.observe(self.config, self.step, trajectories):
                self.log.notice(self.step, message)
        members = {member.id for member in self.selection.members}
        pruned = tuple(name for name in before if name not in members)
        return StepReport(self.step, len(trajectories), summary.unscored, summary.reward, pruned)

    @property
    def rollouts_left(self) -> int | None:
        """Return the rollouts that the budget has left; None where there is no budget."""
        return None if self.budget is None else self.budget - self.rollouts

    def _approve(self, admitted: Sequence[VerificationResult]) -> list[VerificationResult]:
        """Return the candidates that a person approves; all if no person is asked."""
        return (
            list(admitted) if self.supervisor is None else self.supervisor.filter_approved(admitted)
        )

    # ------------------------------------------------------------------------------------ evolve

    def evolve(self, rollout: RolloutFn) -> EvolveReport:
        """Propose, verify with the current policy and admit, when due; else do nothing.

        Due (``evolution_due``) at every multiple of K_e up to and including T_e, and at step 0
        under ``fill_at_start``; under a verifier that tries candidates in training, as soon as all
        on trial are decided. A proposer that is still thinking is waited for, unless a trainer is
        attached: then it stays due, and so it does when ``rollout`` raises. The admitted join the
        population, in which members of low weight make room for them, and the weights are reset as
        configured. When nothing was admitted, population and weights stay as they are. The first
        generation that fails is warned of, and so are three in a row
        (:class:`~evoprompt.generation.GenerationStats` says what a failure is).

        Args:
            rollout: rolls the current policy out; called at least once a verification round.

        Raises:
            InputError: the reward of a rollout is NaN or infinite.
        """
        scale = self.generations.scale(self.rollouts_left)
        if not self.evolution_due or not (self.waits or self.requests.is_ready(self.step, scale)):
            return EvolveReport(self.step)
        started, seconds = time.perf_counter(), self.verify_seconds
        group = self.generations.trials.rollouts if self.has_groups else 0
        rolled = VerificationRollouts(rollout, self.rollouts_left, max(group, 1))
        self._log_sentences()
        offspring = self._breed(rolled)
        if offspring.is_postponed:
            return EvolveReport(self.step)
        report = self._record(offspring, rolled)
        warning = self.generation_stats.count(self.step, offspring)
        warned = [warning] if warning else []
        if report.failures.failed:
            message = (
                f"of the rollouts of the verification at step {self.step} {report.failures}; such "
                "a rollout is little evidence about its instruction; required: an answer and a "
                "reward for each; check the reward function and the limits that end rollouts early"
            )
            self.log.append(events.Notice(self.step, message))
            warned += [message] if report.failures.are_many else []
        self.selection.log_incumbent(self.step)
        self.engine_seconds += time.perf_counter() - started - (self.verify_seconds - seconds)
        for message in warned:  # the last thing to do: a filter may turn it into an exception
            warn(message)
        return report

    def _decide_trials(self) -> None:
        """Let the verifier decide about candidates on trial, and the incumbent follow."""
        self.generations.decide_trials(self.step, self._approve, self.rollouts_left)
        self.selection.update_incumbent()
        self.selection.log_incumbent(self.step)

    def _breed(self, rolled: VerificationRollouts) -> Offspring:
        """Offspring of the best, admitted."""
        offspring = self.generations.breed(self.step, rolled, self.waits)
        if offspring.is_postponed:
            return offspring
        start = time.perf_counter()
        offspring.admitted = self._approve(offspring.admitted)
        self.verify_seconds += rolled.seconds + time.perf_counter() - start
        self.verification_rollouts += len(rolled.trajectories)
        self.generations.admit(offspring)
        self.selection.update_incumbent()
        self.evolution_due = False
        return offspring

    def _record(self, offspring: Offspring, rolled: VerificationRollouts) -> EvolveReport:
        """Log what a generation brought, and report it."""
        members = tuple(member.id for member in self.selection.members)
        admitted = tuple(result.candidate.id for result in offspring.admitted)
        rounds, failure = offspring.rounds, offspring.failure
        rollouts = len(rolled.trajectories)
        self.log.append(events.Evolved(self.step, rounds, admitted, members, rollouts, failure))
        return EvolveReport(
            self.step,
            True,
            rounds,
            offspring.proposed,
            admitted,
            rollouts,
            failure,
            rolled.failures,
        )

    def _schedule_generation(self) -> None:
        """Make a generation due at its step, and let the proposer start and report."""
        scale = self.generations.scale(self.rollouts_left)
        on_trial = bool(self.generations.trials.trials)
        if not self.is_static and not on_trial and self.requests.is_due(self.step):
            self.evolution_due = True
        self.requests.anticipate_generation(self.step, self.evolution_due, scale)

    def _log_end_of_evolution(self) -> None:
        """Log a notice after the step at which ``evolve_until`` ends the evolution."""
        if not self.is_static and self.step == self.config.evolve_until:
            every = self.config.prune_every
            pruning = f"; pruning goes on every {every} steps" if every else ""
            self.log.append(
                events.Notice(
                    self.step,
                    f"evolution ends: evolve_until is {self.step}, so no instruction is proposed "
                    f"after this step{pruning}; set evolve_until to null to evolve to the end",
                )
            )

    def report_end(self) -> str:
        """Warn if nothing evolved, and return the ``failure_reason``, at the end of training."""
        self.selection.log_incumbent(self.step)
        if self.pending_trials:
            self.log.append(
                events.Notice(self.step, f"training has ended while {self.pending_trials}")
            )
        self._log_sentences()
        if reason := self.failure_reason:
            self.log.notice(self.step, f"training has ended and nothing evolved: {reason}")
        return reason

    @property
    def pending_trials(self) -> str:
        """Return which candidates are on trial; empty if none is."""
        names = ", ".join(candidate.id for candidate in self.generations.trials.candidates)
        return f"{names} were on trial: nothing was shown of them" if names else ""

    # ----------------------------------------------------------------------------- for people

    def add(
        self, components: Mapping[str, str], *, by: str = "a person", override: bool = False
    ) -> tuple[Candidate | None, str]:
        """Add a candidate written by a person, if there is a place and screening accepts it.

        Args:
            components: its texts; those of the best are used where one is missing.
            by: name of the author.
            override: whether to add it in spite of screening, as long as it can be read.

        Returns:
            The candidate, None if it was rejected; and the reason of a rejection.
        """
        members, max_members = self.selection.members, self.config.population_size
        if len(members) >= max_members:
            return None, f"all {max_members} places of the population are taken; retire one first"
        best = self.best
        texts = dict(best.components) | dict(components)
        proposal = Proposal(texts, (best.id,), f"requested by {by}", "person")
        screened, finding = self.screening.screen_written(
            proposal, members, best, self.step, override=override
        )
        for event in self.screening.events:
            self.log.append(event)
        if screened is not None:
            self.selection.add(screened)
        return screened, f"{finding.rule}: {finding.reason}" if finding else ""

    def retire(self, candidate: str) -> str:
        """Prune a candidate; return why that is impossible, empty if it was pruned."""
        alive = [member.id for member in self.selection.members]
        if candidate not in alive:
            return "not a member"
        if len(alive) == 1:
            return "the only member"
        self.selection.pinned.discard(candidate)
        self.selection.keep_only(self.step, {member for member in alive if member != candidate})
        return ""

    def pin(self, candidate: str, pinned: bool = True) -> str:
        """Pin a candidate, so that it is never pruned, or unpin it; return why not, if so."""
        if candidate not in self.population:
            return "not a member"
        (self.selection.pinned.add if pinned else self.selection.pinned.discard)(candidate)
        return ""

    # ------------------------------------------------------------------------------------- state

    def state_dict(self) -> dict[str, JsonValue]:
        """Return the state that is needed to continue, as JSON values."""
        parts: dict[str, JsonValue] = {
            name: part.state_dict() for name, part in self._parts().items()
        }
        self.log.sync()
        version, words, gauss = self.rng.getstate()
        return {
            "version": VERSION,
            "step": self.step,
            "training_rollouts": self.training_rollouts,
            "verification_rollouts": self.verification_rollouts,
            "evolution_due": self.evolution_due,
            "events": len(self.log),
            "log": self.log.fingerprint,
            "rng": [version, list(words), gauss],
            "parts": parts,
        }

    def load_state_dict(self, state: Mapping[str, JsonValue], *, rewind: bool = True) -> None:
        """Continue from ``state``.

        Args:
            state: what ``state_dict`` returned.
            rewind: whether what happened after it was saved is dropped from the log and from the
                rollouts spent, as on a resume. A trainer that loads the weights of its best
                checkpoint at the end takes nothing back.

        Raises:
            StateError: the state is of another version, or broken; the engine is unchanged.
            InputError: the events in its ``log_dir`` are of another training; the same.
        """
        if state.get("version") != VERSION:
            raise StateError(
                f"the engine state has version {state.get('version')!r}; required: {VERSION}; "
                "resume with the evoprompt that wrote it, or start afresh"
            )
        before = self.state_dict()
        spent_rollouts = (self.training_rollouts, self.verification_rollouts)
        try:
            json.dumps(state, allow_nan=False)
            saved = _EngineState.model_validate(dict(state))
            if rewind:
                self.log.require(saved.events, saved.log)
            self._restore(saved)
        except InputError:
            raise
        except _BROKEN as error:
            self._restore(_EngineState.model_validate(before))
            raise StateError(
                f"the engine state is broken ({type(error).__name__}: {error}); required: what "
                "state_dict returned; resume from an older checkpoint or start afresh"
            ) from error
        if rewind:
            self.log.rewind(saved.events)
        else:
            self.training_rollouts, self.verification_rollouts = spent_rollouts

    def _restore(self, state: _EngineState) -> None:
        parts = self._parts()
        if missing := sorted(set(parts) - set(state.parts)):
            raise LookupError(f"nothing was saved for {', '.join(missing)}")
        for name, part in parts.items():
            part.load_state_dict(state.parts[name])
        self.step = state.step
        self.training_rollouts = state.training_rollouts
        self.verification_rollouts = state.verification_rollouts
        self.evolution_due = state.evolution_due
        self.rng.setstate(state.rng)

    def _parts(self) -> dict[str, _Stateful]:
        """Return all parts that are saved, by name."""
        return {
            "assignments": self.assignments,
            "population": self.population,
            "selection": self.selection,
            "attributor": self.selection.attributor,
            "sampler": self.selection.sampler,
            "survivor": self.selection.survivor,
            "parent_selector": self.selection.parent_selector,
            "verifier": self.generations.verifier,
            "replay": self.replay,
            "screening": self.screening.known,
            "trials": self.generations.trials,
            "requests": self.requests,
            "generation_stats": self.generation_stats,
            "rewards": self.reward_watch,
            "failures": self.failure_watch,
            "proposer": ProposerState(self.requests),
        }

    # ----------------------------------------------------------------------------------- details

    def _log_sentences(self) -> None:
        values = tuple(self.selection.sentences()[:_SENTENCES])
        if values:
            self.log.append(events.Sentences(self.step, values))
