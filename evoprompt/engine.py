"""The engine: ask, tell, evolve. It orchestrates the roles of ``interfaces.py`` and does no maths.

One process owns it (rank 0, or the veRL driver). It is synchronous and deterministic given its
seed and inputs, and knows nothing of trainers, torch or HTTP.
"""

from __future__ import annotations

import math
import random
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from pydantic import JsonValue

from evoprompt import events
from evoprompt.attributors import WindowMean
from evoprompt.config import EngineConfig
from evoprompt.engine_state import dump_engine, load_engine
from evoprompt.errors import InputError
from evoprompt.events import EventLog
from evoprompt.firewall import Firewall, default_rules
from evoprompt.generation import Breeder, Offspring
from evoprompt.interfaces import (
    Anticipates,
    Attributor,
    Population,
    Probabilistic,
    Proposer,
    Reports,
    RolloutFn,
    Selector,
    Verifier,
)
from evoprompt.ledger import Ledger
from evoprompt.populations import SteadyPopulation
from evoprompt.proposers.silent import Silent
from evoprompt.replay import ReplayBuffer
from evoprompt.selectors import Deap, Softmax, select_distinct
from evoprompt.summaries import summarise_ask, summarise_tell
from evoprompt.types import (
    INSTRUCTION,
    Assignment,
    Candidate,
    EvolveReport,
    Proposal,
    Question,
    Standing,
    StepReport,
    TextLimits,
    Trajectory,
)
from evoprompt.verifiers import ReplayTopN

_MOST_HISTORY = 256  # candidates whose last weight a proposer can look back on


class Engine:
    """Co-evolves a population of instructions with whatever policy answers under them.

    A *step* is one ``tell``: the trajectories a trainer trained on at once.

    Args:
        seeds: the first candidates, each a text or a mapping of components; at least one.
        proposer: writes new candidates; None keeps the seeds (a static instruction when there is
            one of them).
        config: the numbers; the default preset if not given.
        seed: seeds all randomness of the engine.
        log: takes the events; in memory if not given.
        required: substrings every instruction must hold, such as protocol tags.
        sampler: draws the candidate of each question; ``Softmax(config.temperature)``.
        survivor: keeps candidates when pruning; ``Deap("best")``.
        parent_selector: picks whom to improve; ``Deap("best")``.
        attributor: rewards to weights; ``WindowMean(config.window)``.
        verifier: ``ReplayTopN(config.verify_questions, config.accept)``.
        population: ``SteadyPopulation()``.
        firewall: judges proposals; all default rules.

    Raises:
        InputError: there is no seed, more than N of them, two alike, or one lacks a required tag.
    """

    def __init__(
        self,
        seeds: Sequence[str | Mapping[str, str]],
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
        firewall: Firewall | None = None,
    ) -> None:
        self.config = config or EngineConfig()
        self.log = EventLog() if log is None else log
        self.sampler = sampler or Softmax(self.config.temperature)
        self.survivor = survivor or Deap("best")
        self.parent_selector = parent_selector or Deap("best")
        self.attributor = attributor or WindowMean(self.config.window)
        self.population: Population = SteadyPopulation() if population is None else population
        self.replay = ReplayBuffer(self.config.replay_capacity, self.config.failure_below)
        self.breeder = Breeder(
            proposer or Silent(),
            firewall or Firewall(default_rules()),
            verifier or ReplayTopN(self.config.verify_questions, self.config.accept),
            self.config,
            required,
            self.log.append,
        )
        self.rng = random.Random(seed)
        self.history: OrderedDict[str, Standing] = OrderedDict()
        self.step = 0
        self.training_rollouts = 0
        self.verification_rollouts = 0
        self.engine_seconds = 0.0
        self.verify_seconds = 0.0
        self.fresh_failures = 0
        self.anticipated = False
        self.late = False
        self.ledger = Ledger()
        self._add_seeds(seeds)
        self.evolution_due = self.config.fill_at_start and self._can_grow

    # ------------------------------------------------------------------------------ what is known

    @property
    def proposer(self) -> Proposer:
        """Who writes new candidates."""
        return self.breeder.proposer

    @property
    def limits(self) -> TextLimits:
        """What the policy's tokenizer and context allow; adapters set it."""
        return self.breeder.limits

    @limits.setter
    def limits(self, limits: TextLimits) -> None:
        self.breeder.limits = limits

    @property
    def rollouts(self) -> int:
        """Rollouts spent so far, verification included."""
        return self.training_rollouts + self.verification_rollouts

    @property
    def pending(self) -> Mapping[str, Assignment]:
        """Assignments that were asked and are not fully told, by id, oldest first."""
        return self.ledger.pending

    def standings(self) -> list[Standing]:
        """The living candidates with their weights, oldest first.

        Under ``unmeasured="protect"`` a candidate with fewer than ``min_groups`` groups has the
        mean weight of the measured ones: unknown is not bad.
        """
        found = [self.attributor.standing(candidate) for candidate in self.population.alive]
        if self.config.unmeasured == "zero":
            return found
        measured = [standing.weight for standing in found if self._is_measured(standing)]
        if not measured or len(measured) == len(found):
            return found
        average = fmean(measured)
        return [s if self._is_measured(s) else replace(s, weight=average) for s in found]

    @property
    def best(self) -> Candidate:
        """``argmax_j w_j`` over the living; measured before unmeasured, the oldest on a tie."""
        return max(
            self.standings(),
            key=lambda standing: (
                self.config.unmeasured == "zero" or self._is_measured(standing),
                standing.weight,
            ),
        ).candidate

    def metrics(self) -> dict[str, float]:
        """Numbers for a trainer's own reporters."""
        standings = self.standings()
        weights = [standing.weight for standing in standings]
        found = {
            "population_size": float(len(standings)),
            "best_weight": max(weights),
            "mean_weight": fmean(weights),
            "best_instruction_words": float(len(self.best.text.split())),
            "training_rollouts": float(self.training_rollouts),
            "verification_rollouts": float(self.verification_rollouts),
            "candidates_born": float(self.breeder.born),
        }
        if chances := self._chances(standings):
            found["selection_entropy"] = -math.fsum(p * math.log(p) for p in chances if p > 0)
        if isinstance(self.proposer, Reports):
            found |= {f"proposer/{name}": value for name, value in self.proposer.metrics().items()}
        return found

    # --------------------------------------------------------------------------------- ask, tell

    def ask(self, questions: Sequence[Question], rollouts: int) -> list[Assignment]:
        """``config.candidates_per_question`` assignments a question, in the order of the questions.

        Args:
            questions: the batch, at least one.
            rollouts: trajectories each assignment will get, at least 1.

        Raises:
            InputError: ``rollouts`` is less than 1 or there is no question.
        """
        if rollouts < 1 or not questions:
            raise InputError(
                f"asked for {rollouts} rollouts of {len(questions)} questions; required: at "
                "least one of each; check the batch the trainer hands over"
            )
        started = time.perf_counter()
        standings = self.standings()
        drawn = self._draw(standings, len(questions))
        assignments = self.ledger.issue(questions, drawn, rollouts, self.config.grouping, self.step)
        chances = self._chances(standings)
        self.log.append(summarise_ask(self.step + 1, standings, chances, drawn))
        self.engine_seconds += time.perf_counter() - started
        return assignments

    def tell(self, trajectories: Sequence[Trajectory]) -> StepReport:
        """Completes a step: attributes the rewards, remembers the trajectories, prunes when due.

        Results may be partial and out of order; what comes later counts for the step it is told
        in. Trajectories without a reward are counted but attributed to nobody, and so are those of
        candidates pruned in the meantime.

        Raises:
            UnknownAssignmentError: an assignment was never given by this engine, or is forgotten.
            AlreadyToldError: a trajectory was told before, or twice in this call.
            InputError: a reward is NaN or infinite, or a rollout index is out of range.
                After any of these errors the engine is as it was before the call.
        """
        started = time.perf_counter()
        self.ledger.receive(trajectories)
        self.step += 1
        self.training_rollouts += len(trajectories)
        credited = [t for t in trajectories if t.candidate.id in self.population]
        self.attributor.observe(self.step, credited)
        self.replay.add(self.step, trajectories)
        self.ledger.forget_stale(self.step)
        told = summarise_tell(self.step, self.rollouts, trajectories, self.standings())
        self.log.append(told)
        pruned = self._prune_if_due()
        self.evolution_due = self.evolution_due or self._is_evolution_step()
        self._think_ahead(trajectories)
        self.engine_seconds += time.perf_counter() - started
        reward = math.nan if told.reward is None else told.reward
        return StepReport(self.step, len(trajectories), told.unscored, reward, pruned)

    # ------------------------------------------------------------------------------------ evolve

    def evolve(self, rollout: RolloutFn) -> EvolveReport:
        """Breeds, verifies with the current policy and admits, when due; else does nothing.

        Due (``evolution_due``) at every multiple of K_e up to and including T_e, and at step 0
        under ``fill_at_start``. (Algorithm 1 says ``t < T_e``, its Appendix C counts one more; we
        follow the appendix.) A proposer that is still thinking is not waited for: evolution stays
        due. Afterwards the population is the parents and the admitted, and the weights are reset
        as configured. When nothing was admitted, population and weights stay as they are.

        Args:
            rollout: rolls the current policy out; called once a verification round.
        """
        if not self.evolution_due or not self._proposer_is_ready():
            return EvolveReport(self.step)
        started = time.perf_counter()
        self.evolution_due = self.anticipated = self.late = False
        self.fresh_failures = 0
        standings = self.standings()
        self._remember(standings)
        parents = self._parents(standings)
        kept = {standing.candidate.id for standing in (*parents, *self._protected(standings))}
        offspring = self.breeder.breed(
            parents,
            self.population.alive,
            self.config.population_size - len(kept),
            self.step,
            self.replay,
            list(self.history.values()),
            rollout,
            self.rng,
        )
        self.verification_rollouts += offspring.rollouts
        if offspring.admitted:
            self._admit(offspring, standings, kept)
        admitted = tuple(verdict.candidate.id for verdict in offspring.admitted)
        alive = tuple(candidate.id for candidate in self.population.alive)
        self.log.append(
            events.Evolved(self.step, offspring.rounds, admitted, alive, offspring.rollouts)
        )
        self.verify_seconds += offspring.seconds
        self.engine_seconds += time.perf_counter() - started - offspring.seconds
        return EvolveReport(
            self.step, True, offspring.rounds, offspring.proposed, admitted, offspring.rollouts
        )

    # ------------------------------------------------------------------------------------- state

    def state_dict(self) -> dict[str, JsonValue]:
        """Everything needed to continue, as JSON values."""
        return dump_engine(self)

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state`` and drops from the log what happened after it was saved.

        Raises:
            StateError: the state is of another version, or broken; the engine is unchanged.
        """
        load_engine(self, state)

    # ----------------------------------------------------------------------------------- details

    def _add_seeds(self, seeds: Sequence[str | Mapping[str, str]]) -> None:
        if not seeds:
            raise InputError("no seed instruction was given; required: at least one; name a text")
        if len(seeds) > self.config.population_size:
            raise InputError(
                f"{len(seeds)} seed instructions were given; required: at most population_size "
                f"{self.config.population_size}; drop some or raise it"
            )
        texts: set[str] = set()
        for given in seeds:
            components = {INSTRUCTION: given} if isinstance(given, str) else given
            candidate = self.breeder.new_candidate(Proposal(components, proposer="seed"), 0)
            missing = [tag for tag in self.breeder.required if tag not in candidate.text]
            if missing or not candidate.text.strip() or candidate.text in texts:
                fault = f"lacks {', '.join(missing)}" if missing else "is empty or given twice"
                raise InputError(
                    f"the seed instruction {candidate.text!r} {fault}; required: different texts "
                    f"that hold {', '.join(self.breeder.required) or 'something'}; mend the seed"
                )
            texts.add(candidate.text)
            self.population.add(candidate)
            self.log.append(events.Seeded(0, candidate.id, dict(components)))

    def _is_measured(self, standing: Standing) -> bool:
        return standing.groups >= self.config.min_groups

    def _protected(self, standings: Sequence[Standing]) -> list[Standing]:
        if self.config.unmeasured == "zero":
            return []
        return [standing for standing in standings if not self._is_measured(standing)]

    def _chances(self, standings: Sequence[Standing]) -> Sequence[float]:
        if isinstance(self.sampler, Probabilistic):
            return self.sampler.probabilities(standings)
        return ()

    def _draw(self, standings: Sequence[Standing], questions: int) -> list[Candidate]:
        each = self.config.candidates_per_question
        if each == 1:
            return [s.candidate for s in self.sampler.select(standings, questions, self.rng)]
        drawn: list[Candidate] = []
        for _ in range(questions):
            different = select_distinct(self.sampler, standings, each, self.rng)
            drawn += [different[index % len(different)].candidate for index in range(each)]
        return drawn

    def _prune_if_due(self) -> tuple[str, ...]:
        """Successive halving: every K_p steps keep the better half, never fewer than N_parent."""
        if self.step % self.config.prune_every:
            return ()
        standings = self.standings()
        keep = max(self.config.parents, math.ceil(len(standings) / 2))
        protected = self._protected(standings)
        ranked = [s for s in standings if s not in protected] if protected else standings
        if len(standings) <= keep or not ranked:
            return ()
        self._remember(standings)
        places = max(keep - len(protected), 1)
        kept = [*protected, *select_distinct(self.survivor, ranked, places, self.rng)]
        return self._remove_all_but({standing.candidate.id for standing in kept})

    def _admit(self, offspring: Offspring, standings: Sequence[Standing], kept: set[str]) -> None:
        if self.step:
            self._remove_all_but(kept)
        for verdict in (*offspring.admitted, *offspring.rejected):
            if verdict.scored:
                self._remember([Standing(verdict.candidate, verdict.mean, groups=verdict.scored)])
        for verdict in offspring.admitted:
            self.population.add(verdict.candidate)
        if self.config.reset == "zero":
            self.attributor.reset({})
            return
        # A parent that was not rolled out beside its offspring keeps the weight it had.
        priors: dict[str, Sequence[float]] = {
            s.candidate.id: [s.weight] for s in standings if s.candidate.id in kept and s.groups
        }
        priors |= {id_: found for id_, found in offspring.rewards.items() if id_ in self.population}
        self.attributor.reset(priors)

    @property
    def _can_grow(self) -> bool:
        full = len(self.population.alive) >= self.config.population_size
        return not isinstance(self.proposer, Silent) and not full

    def _is_evolution_step(self) -> bool:
        until = self.config.evolve_until
        if isinstance(self.proposer, Silent) or (until is not None and self.step > until):
            return False
        return self.step % self.config.evolve_every == 0

    def _think_ahead(self, trajectories: Sequence[Trajectory]) -> None:
        """Lets a proposer that anticipates start as soon as enough failures have come in."""
        self.breeder.report(self.step)
        self.fresh_failures += sum(
            t.reward is not None and t.reward < self.config.failure_below for t in trajectories
        )
        until = self.config.evolve_until
        more = (
            until is None
            or self.step < until // self.config.evolve_every * self.config.evolve_every
        )
        if more and self.fresh_failures >= self.config.failures_per_request:
            self._anticipate()

    def _anticipate(self) -> None:
        proposer = self.proposer
        if self.anticipated or not isinstance(proposer, Anticipates) or proposer.ready:
            return
        self.anticipated = True
        places = self.config.population_size - self.config.parents
        count = self.config.proposals_per_round or max(places, 1)
        parents = self._parents(self.standings())
        past = list(self.history.values())
        proposer.anticipate(
            self.breeder.request(parents, count, self.step, self.replay, past, self.rng)
        )

    def _proposer_is_ready(self) -> bool:
        if self.breeder.ready:
            return True
        self._anticipate()
        if not self.late:
            self.late = True
            message = f"evolution is due at step {self.step} but the proposer is still thinking"
            self.log.append(events.Notice(self.step, f"{message}; training goes on"))
        return False

    def _parents(self, standings: Sequence[Standing]) -> list[Standing]:
        return select_distinct(self.parent_selector, standings, self.config.parents, self.rng)

    def _remove_all_but(self, kept: set[str]) -> tuple[str, ...]:
        alive = [candidate.id for candidate in self.population.alive]
        dropped = tuple(candidate for candidate in alive if candidate not in kept)
        if dropped:
            self.population.remove(dropped)
            self.attributor.forget(dropped)
            remaining = tuple(candidate for candidate in alive if candidate in kept)
            self.log.append(events.Pruned(self.step, dropped, remaining))
        return dropped

    def _remember(self, standings: Sequence[Standing]) -> None:
        for standing in standings:
            if standing.groups:
                slim = replace(standing, objectives={}, by_question={})
                self.history[standing.candidate.id] = slim
                self.history.move_to_end(standing.candidate.id)
        while len(self.history) > _MOST_HISTORY:
            self.history.popitem(last=False)
