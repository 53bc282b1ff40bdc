"""The engine: ask, tell, evolve. It orchestrates the roles of ``interfaces.py`` and does no maths.

One process owns it (rank 0, or the veRL driver). It is synchronous and deterministic given its
seed and inputs, and knows nothing of trainers, torch or HTTP.
"""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from evoprompt import events
from evoprompt.comparison import state_best
from evoprompt.config import EngineConfig
from evoprompt.engine.assignments import AssignmentTracker
from evoprompt.engine.best import Duel
from evoprompt.engine.desk import Desk
from evoprompt.engine.evolution import Evolution
from evoprompt.engine.excerpts import due_to_show, excerpts_of
from evoprompt.engine.generation import GenerationRunner
from evoprompt.engine.metrics import measure
from evoprompt.engine.probation import Probation
from evoprompt.engine.requests import RequestFolder
from evoprompt.engine.reward_watch import RewardWatch
from evoprompt.engine.candidates import Screening
from evoprompt.engine.seating import fill_seats
from evoprompt.engine.seats import GuardedPopulation, require_role, require_type
from evoprompt.engine.seeds import Seed, usable_seeds
from evoprompt.engine.selection import Selection
from evoprompt.engine.side_calls import SideCalls
from evoprompt.engine.state import dump_engine, load_engine
from evoprompt.engine.summaries import summarise_ask, summarise_tell
from evoprompt.errors import EvopromptWarning, InputError
from evoprompt.eventlog import EventLog
from evoprompt.populations import SteadyPopulation
from evoprompt.proposers.silent import Silent
from evoprompt.replay import ReplayBuffer
from evoprompt.roles import (
    Attributor,
    Checkable,
    Population,
    Proposer,
    RolloutFn,
    Selector,
    Verifier,
)
from evoprompt.types import (
    Assignment,
    Candidate,
    CandidateStats,
    EvolveReport,
    Question,
    Setting,
    StepReport,
    TextLimits,
    Trajectory,
)


class Engine:
    """Co-evolves a population of instructions with whatever policy answers under them.

    A *step* is one ``tell``: the trajectories a trainer trained on at once.

    Args:
        seeds: the first candidates, each a text, a mapping of components, or a ``Proposal`` whose
            rationale says where it comes from; at least one.
        proposer: writes new candidates; None keeps the seeds (a static instruction when there is
            one of them).
        config: the numbers; the default preset if not given.
        seed: seeds all randomness of the engine.
        log: takes the events; in memory if not given.
        required: substrings every instruction must hold, such as protocol tags.
        sampler: draws the candidate of each question; ``Softmax(config.reward_temperature)``, or
            whatever ``config.sampling`` says.
        survivor: keeps candidates when pruning; ``Deap("best")``.
        parent_selector: picks whom to improve; ``Deap("best")``.
        attributor: rewards to weights; ``Adjusted()``, or whatever ``config.weights`` says.
        verifier: ``ReplayTopN(config.verify_questions, config.accept)``, or none where
            ``config.accept`` is ``"all"``.
        population: ``SteadyPopulation()``.
        rules: of screening; ``default_rules()``.

    Attributes:
        budget: most rollouts to spend, verification included; None for no end. A verification
            that would go beyond it is not begun. ``evoprompt run`` sets it.
        waits: whether ``evolve`` waits for a proposer that is still thinking. Adapters switch it
            off while they are attached: a trainer has something better to do.

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
        require_type("config", config, EngineConfig)
        require_type("seed", seed, int)
        require_type("log", log, EventLog)
        require_type("rules", rules, list, tuple)
        require_type("required", required, list, tuple)
        require_role("proposer", "proposer", proposer)
        require_role("population", "population", population)
        self.config = config or EngineConfig()
        self.log = EventLog() if log is None else log
        self.rng = random.Random(seed)
        falling_back = self.config.on_component_failure == "fallback"
        announce = self._announce_failure if falling_back else None
        self.population: Population = (
            SteadyPopulation() if population is None else GuardedPopulation(population, announce)
        )
        self.replay = ReplayBuffer(self.config.replay_capacity, self.config.failure_threshold)
        self.seats = fill_seats(
            self.config,
            announce,
            attributor=attributor,
            sampler=sampler,
            survivor=survivor,
            parent_selector=parent_selector,
            verifier=verifier,
        )
        self.probation = Probation(self.seats.verifier)
        self.selection = Selection(
            self.config,
            self.population,
            self.seats.attributor,
            self.seats.sampler,
            self.seats.survivor,
            self.seats.parent_selector,
            self.rng,
            lambda: self.probation.ids,
        )
        self.screening = Screening(rules, self.replay, required, self.log.append)
        self.side_calls = SideCalls(self._announce)
        self.generations = GenerationRunner(
            proposer or Silent(),
            self.screening,
            self.seats.verifier,
            self.config,
            self.replay,
            self.rng,
            required,
            self.log.append,
            self.log.show,
            self.side_calls,
        )
        self.waits = True
        self.budget: int | None = None
        self.assignments = AssignmentTracker()
        self.desk = Desk(
            RequestFolder(self.log.path),
            self.config.approve,
            self.population,
            self.selection,
            self.screening,
            self.config.population_size,
            self.log.append,
            self.log.show,
            lambda: self.probation.ids,
        )
        self.evolution = Evolution(
            self.config,
            self.population,
            self.selection,
            self.generations,
            self.probation,
            self.desk,
            self.log,
        )
        self.reward_watch = RewardWatch(self.config)
        self.step = 0
        self.training_rollouts = 0
        self.engine_seconds = 0.0
        self.evolution.begin(usable_seeds(seeds, self.config.population_size, required))

    # ------------------------------------------------------------------------------ what is known

    @property
    def proposer(self) -> Proposer:
        """Who writes new candidates."""
        return self.generations.proposer

    @property
    def fruitless(self) -> str:
        """Why nothing evolved although it was to: no generation succeeded; empty otherwise."""
        return self.evolution.fruitless

    @property
    def limits(self) -> TextLimits:
        """What the policy's tokenizer and context allow; adapters set it."""
        return self.screening.limits

    @limits.setter
    def limits(self, limits: TextLimits) -> None:
        self.screening.limits = limits

    @property
    def setting(self) -> Setting:
        """What stands around an instruction; adapters set it, and proposers read it."""
        return self.generations.setting

    @setting.setter
    def setting(self, setting: Setting) -> None:
        self.generations.setting = setting

    @property
    def rollouts(self) -> int:
        """Rollouts spent so far, verification included."""
        return self.training_rollouts + self.verification_rollouts

    @property
    def verification_rollouts(self) -> int:
        """Rollouts spent on verification so far."""
        return self.evolution.rollouts

    @property
    def verify_seconds(self) -> float:
        """Time spent inside those rollouts."""
        return self.evolution.seconds

    @property
    def evolution_due(self) -> bool:
        """Whether ``evolve`` has something to do."""
        return self.evolution.due

    @evolution_due.setter
    def evolution_due(self, due: bool) -> None:
        self.evolution.due = due

    @property
    def pending(self) -> Mapping[str, Assignment]:
        """Assignments that were asked and are not fully told, by id, oldest first."""
        return self.assignments.pending

    def candidate_stats(self) -> list[CandidateStats]:
        """The living candidates with their weights, oldest first.

        Under ``unmeasured="explore"`` the unmeasured have the mean weight of the measured.
        """
        return self.selection.candidate_stats()

    @property
    def best(self) -> Candidate:
        """Whoever is shown to be better than the first instruction, and else that one.

        Pruning goes by weights, so it may no longer be alive; ``best_statement`` says more.
        """
        return self.selection.best

    def best_statement(self) -> str:
        """A sentence for people: whether ``best`` is shown to be better than the first one."""
        first = self.selection.shown.first(self.population.alive)
        return state_best(self.best.id, first.id, self.selection.leader.id)

    def metrics(self) -> dict[str, float]:
        """Numbers for a trainer's own reporters."""
        return measure(self)

    def check(self, probe: bool = False) -> None:
        """Returns if the proposer can work here, as far as it can tell; sends nothing.

        Args:
            probe: also let it ask the service behind it once. Adapters do when they attach, on
                the process that owns the engine.

        Raises:
            InputError: it cannot.
        """
        if isinstance(self.proposer, Checkable):
            self.proposer.check(probe)

    # --------------------------------------------------------------------------------- ask, tell

    def ask(self, questions: Sequence[Question], rollouts: int) -> list[Assignment]:
        """``config.candidates_per_question`` assignments a question, in the order of the questions.

        Args:
            questions: the batch, at least one.
            rollouts: trajectories each assignment will get, at least 1.

        Raises:
            InputError: ``rollouts`` is less than 1, there is no question, or admissions wait for
                an answer that nobody can give.
        """
        if rollouts < 1 or not questions:
            raise InputError(
                f"asked for {rollouts} rollouts of {len(questions)} questions; required: at "
                "least one of each; check the batch the trainer hands over"
            )
        self.desk.require_open()
        started = time.perf_counter()
        self.evolution.schedule.look(self.step)
        questions = [self.replay.known(question) for question in questions]
        candidate_stats = self.candidate_stats()
        drawn = self.selection.draw(candidate_stats, len(questions), self.probation.lacking)
        assignments = self.assignments.issue(
            questions, drawn, rollouts, self.config.grouping, self.step
        )
        chances = self.selection.chances(candidate_stats)
        self.log.append(summarise_ask(self.step + 1, candidate_stats, chances, drawn))
        self.engine_seconds += time.perf_counter() - started
        return assignments

    def tell(self, trajectories: Sequence[Trajectory]) -> StepReport:
        """Completes a step: attributes the rewards, remembers the trajectories, prunes when due.

        Results may be partial and out of order; what comes later counts for the step it is told
        in. Trajectories without a reward are counted but attributed to nobody, and so are those of
        candidates pruned in the meantime.

        Raises:
            UnknownAssignmentError: an assignment was never given by this engine.
            AlreadyToldError: a trajectory was told before or twice in this call, or was asked for
                so long ago (100 steps) that it is forgotten.
            InputError: a reward or metric is NaN or infinite, or a rollout index is out of range.
                After any of these errors the engine is as it was before the call.
        """
        started = time.perf_counter()
        self.assignments.receive(trajectories)
        self.step += 1
        self.training_rollouts += len(trajectories)
        living = {candidate.id for candidate in self.population.alive}
        counted = [t for t in trajectories if t.candidate.id in living]
        self.selection.observe(self.step, counted)
        self.probation.observe(self.step, counted)
        self.replay.add(self.step, trajectories)
        self.assignments.forget_stale(self.step)
        told = summarise_tell(self.step, self.rollouts, trajectories, self.candidate_stats())
        self.log.append(told)
        if excerpts := excerpts_of(due_to_show(trajectories, self.step)):
            self.log.append(events.Shown(self.step, excerpts))
        pruned = self.evolution.prune(self.step)
        self.desk.attend(self.step)
        self.evolution.watch(self.step)
        self._announce_best()
        self.engine_seconds += time.perf_counter() - started
        if not self.evolution.is_static:
            for message in self.reward_watch.observe(self.step, trajectories):
                self._announce(message)
        return StepReport(self.step, len(trajectories), told.unscored, told.reward, pruned)

    # ------------------------------------------------------------------------------------ evolve

    def evolve(self, rollout: RolloutFn) -> EvolveReport:
        """Breeds, verifies with the current policy and admits, when due; else does nothing.

        Due (``evolution_due``) at every multiple of K_e up to and including T_e, and at step 0
        under ``fill_at_start``. A proposer that is still thinking is waited for, unless a trainer
        is attached: then it stays due, and so it does when ``rollout`` raises. Afterwards the
        population is the parents and the admitted (and whoever is not measured yet), and the
        weights are reset as configured. When nothing was admitted, population and weights stay
        as they are. The first generation that fails is warned of, and so are three in a row
        (:mod:`evoprompt.engine.tally` says what a failure is).

        Args:
            rollout: rolls the current policy out; called at least once a verification round.

        Raises:
            InputError: the reward of a rollout is NaN or infinite.
        """
        started, verified = time.perf_counter(), self.verify_seconds
        room = None if self.budget is None else max(self.budget - self.rollouts, 0)
        before, shown = [one.id for one in self.population.alive], self.selection.shown
        champion = shown.champion(self.population.alive)
        most = 0 if champion.id in before else self.config.verify_questions
        duel = Duel(rollout, champion, most)
        left = None if room is None else max(room - most, 0)
        report, warning = self.evolution.evolve(self.step, duel, self.waits, left)
        if report.due:
            shown.evolve(before, self.population.alive, duel.answers)
        if duel.rollouts:
            message = (
                f"{champion.id}, the best so far, lives no more and was asked the same questions "
                f"as those who were verified: {duel.rollouts} rollouts"
            )
            self.log.append(events.Notice(self.step, message))
        self._announce_best()
        self.engine_seconds += time.perf_counter() - started - (self.verify_seconds - verified)
        if warning:  # the last thing to do: a filter may turn it into an exception
            warnings.warn(warning, EvopromptWarning, stacklevel=2)
        return report

    def conclude(self) -> str:
        """Warns if nothing evolved (``fruitless``) and returns why; adapters call it at the end."""
        if self.fruitless:
            self._announce(f"training has ended and nothing evolved: {self.fruitless}")
        self.evolution.conclude(self.step)
        return self.fruitless

    # ------------------------------------------------------------------------------------- state

    def state_dict(self) -> dict[str, JsonValue]:
        """Everything needed to continue, as JSON values."""
        return dump_engine(self)

    def load_state_dict(self, state: Mapping[str, JsonValue], *, rewind: bool = True) -> None:
        """Continues from ``state``.

        Args:
            state: what ``state_dict`` returned.
            rewind: whether what happened after it was saved is dropped from the log and from the
                rollouts spent, as on a resume. A trainer that loads the weights of its best
                checkpoint at the end takes nothing back.

        Raises:
            StateError: the state is of another version, or broken; the engine is unchanged.
            InputError: the events in its ``log_dir`` are of another training; the same.
        """
        load_engine(self, state, rewind)

    # ----------------------------------------------------------------------------------- details

    def _announce_failure(self, message: str) -> None:
        self.evolution.tally.component_failures += 1
        self._announce(message)

    def _announce_best(self) -> None:
        """Notes in the log who is the best from now on, once there is a choice."""
        best, shown = self.best.id, self.selection.shown
        if best != shown.announced and len(self.population.alive) > 1:
            shown.announced = best
            self.log.append(events.Best(self.step, best))

    def _announce(self, message: str) -> None:
        self.log.append(events.Notice(self.step, message))
        warnings.warn(message, EvopromptWarning, stacklevel=2)
