"""How the population changes: pruned while it trains, bred when due, tried on probation."""

from __future__ import annotations

import time
from collections.abc import Sequence

from evoprompt import events
from evoprompt.config import EngineConfig
from evoprompt.engine.best import Duel
from evoprompt.engine.desk import Desk
from evoprompt.engine.generation import GenerationRunner, Offspring
from evoprompt.engine.probation import Probation
from evoprompt.engine.schedule import ProposalScheduler, Unfilled
from evoprompt.engine.selection import Selection
from evoprompt.engine.tally import Tally
from evoprompt.eventlog import EventLog
from evoprompt.proposers.silent import Silent
from evoprompt.roles import (
    Population,
    ProposalRequest,
)
from evoprompt.types import Candidate, CandidateStats, EvolveReport, Proposal


class Evolution:
    """Decides who leaves and who comes, and when.

    Args:
        config: the engine's numbers.
        population: who is alive.
        selection: what they are worth.
        generations: breeds and verifies.
        probation: of those that were admitted so.
        desk: where a person may have to approve.
        log: takes the events.

    Attributes:
        schedule: asks the proposer in time.
        tally: counts how generations ended.
        due: whether ``evolve`` has something to do.
        rollouts: of verification, spent so far.
        seconds: spent inside those.
    """

    def __init__(
        self,
        config: EngineConfig,
        population: Population,
        selection: Selection,
        generations: GenerationRunner,
        probation: Probation,
        desk: Desk,
        log: EventLog,
    ) -> None:
        self.config = config
        self.population = population
        self.selection = selection
        self.generations = generations
        self.schedule = ProposalScheduler(
            generations.proposer, config, log.append, log.show, generations.side_calls
        )
        self.probation = probation
        self.desk = desk
        self.tally = Tally()
        self.log = log
        self.due = False
        self.rollouts = 0
        self.seconds = 0.0

    @property
    def is_static(self) -> bool:
        """Whether nothing is ever proposed."""
        return isinstance(self.generations.proposer, Silent)

    @property
    def fruitless(self) -> str:
        """Why nothing evolved although it was to: all generations failed, or none was answered.

        Empty otherwise, also while no generation was due.
        """
        if self.tally.all_failed:
            count = self.tally.generations
            return f"all of {count} generations failed, the last because {self.tally.last_failure}"
        if not self.tally.generations and self.schedule.late:
            return "the proposer was asked and never answered"
        return ""

    def begin(self, seeds: Sequence[Proposal]) -> None:
        """Lets ``seeds`` live; at once due where the rest is to be filled at the start."""
        continued = len(self.log) > 0  # the seeds are in there already; a state is to follow
        for seeded in seeds:
            candidate = self.generations.screening.new_candidate(seeded, 0)
            self.population.add(candidate)
            first = events.Seeded(0, candidate.id, candidate.components, candidate.rationale)
            (self.log.show if continued else self.log.append)(first)
        self.due = (
            self.config.fill_at_start
            and not self.is_static
            and len(self.population.alive) < self.config.population_size
        )

    def prune(self, step: int) -> tuple[str, ...]:
        """Ids of those that leave now: after a probation, and when pruning is due."""
        pruned = self._end_probation(step, final=False)
        if self.config.prunes_at(step) and not self.probation.ids:
            halved = self.selection.halve()
            self._log_pruned(step, halved)
            pruned += halved
        return pruned

    def watch(self, step: int) -> None:
        """Makes an evolution due at its step, and lets the proposer start and report."""
        if left := self.schedule.given_up(step):
            self.due = False
            self._give_up(step, left)
        if not self.is_static and self.schedule.is_due(step):
            self.due = True
        self.generations.report(step)
        living = {candidate.id for candidate in self.population.alive}
        parents_known = not self.probation.ids
        self.schedule.watch(step, self.due, lambda: self._request(step), living, parents_known)

    def evolve(
        self, step: int, rollout: Duel, waits: bool, room: int | None
    ) -> tuple[EvolveReport, str]:
        """What an evolution brought if one is due, and of what a person should be warned.

        Args:
            step: the engine step.
            rollout: rolls the current policy out.
            waits: whether a proposer that is still thinking is waited for.
            room: most rollouts to spend; None for no end.
        """
        if not self.due:
            return EvolveReport(step), ""
        self._end_probation(step, final=True)
        if not waits and not self.schedule.is_ready(step, lambda: self._request(step)):
            return EvolveReport(step), ""
        candidate_stats = self.selection.candidate_stats()
        self.selection.remember(candidate_stats)
        before = self.schedule.unfilled
        parents = self._parents(candidate_stats)
        kept = self._kept(step, parents, candidate_stats)
        places = self.config.population_size - len(kept)
        places = places if before is None else min(places, before.places)
        offspring = self.generations.breed(
            parents,
            candidate_stats,
            places,
            step,
            self.selection.history,
            rollout,
            waits,
            room,
            self.schedule.parents,
            before,
        )
        places -= len(offspring.admitted)
        offspring.rollouts += rollout.rollouts
        asked = time.perf_counter()
        offspring.admitted = self.desk.approved(offspring.admitted, step)
        self.seconds += offspring.seconds + time.perf_counter() - asked
        self.rollouts += offspring.rollouts
        self.selection.remember(offspring.candidate_stats)
        if offspring.admitted:
            self._log_pruned(step, self.selection.keep_only(kept))
            self.selection.admit(
                step,
                [result.candidate for result in offspring.admitted],
                offspring.answers,
                offspring.expected,
            )
            self._begin_probation(step, offspring, parents[0].candidate)
        if offspring.unfinished:
            left = offspring.left(places)
            again = self.schedule.go_on(step, left, lambda: self._request(step, parents))
            offspring.unfinished = again
        if not offspring.unfinished:
            self.schedule.begin_anew(step)
        self.due = offspring.unfinished
        alive = tuple(candidate.id for candidate in self.population.alive)
        admitted = tuple(result.candidate.id for result in offspring.admitted)
        self.log.append(
            events.Evolved(
                step, offspring.rounds, admitted, alive, offspring.rollouts, offspring.failure
            )
        )
        report = EvolveReport(
            step,
            True,
            offspring.rounds,
            offspring.proposed,
            admitted,
            offspring.rollouts,
            offspring.failure,
        )
        return report, self.tally.count(step, offspring)

    def _give_up(self, step: int, left: Unfilled) -> None:
        """Ends a generation that was to go on."""
        why = "the proposer did not answer in time for another round"
        told = self.tally.count(step, Offspring(asked=True, obstacle=why, before=left))
        message = f"{why}, and {left.places} places stay free"
        self.log.append(events.Notice(step, told or message))

    def conclude(self, step: int) -> None:
        """Notes who is still on probation when training ends."""
        if trying := sorted(self.probation.ids):
            message = (
                f"training has ended while {', '.join(trying)} were on probation; the best is one "
                "of the others"
            )
            self.log.append(events.Notice(step, message))

    def _begin_probation(self, step: int, offspring: Offspring, parent: Candidate) -> None:
        """Puts on probation whom the verifier admitted, if it admits so."""
        if not offspring.verifications:  # nothing to verify on: they came in as they were
            return
        admitted = [result.candidate for result in offspring.admitted]
        if self.probation.begin(admitted, parent):
            names = ", ".join(one.id for one in admitted)
            message = f"on probation beside {parent.id}, and drawn before others: {names}"
            self.log.append(events.Notice(step, message))

    def _end_probation(self, step: int, final: bool) -> tuple[str, ...]:
        """Ids of those turned away after their probation, if it ends now, oldest first."""
        lacking = {name: count for name, count in self.probation.lacking.items() if count}
        found = self.probation.conclude(final)
        if found is None:
            return ()
        self.generations.settle(found, step)
        self.selection.remember(self.selection.candidate_stats())
        refused = {one.candidate.id for one in found.results if not one.admitted}
        stayed = [one.candidate.id for one in found.results if one.admitted]
        self.tally.count_probation(len(stayed), len(refused))
        message = (
            f"the probation has ended: {', '.join(stayed) or 'nobody'} stayed, "
            f"{', '.join(sorted(refused)) or 'nobody'} was turned away"
        )
        if lacking:
            message += (
                f"; the next evolution was due and up to {max(lacking.values())} groups were "
                "lacking: train on more questions a step, raise evolve_every, lower "
                "population_size or the verifier's groups, or use a verifier that rolls out"
            )
        self.log.append(events.Notice(step, message))
        dropped = self.selection.keep_only(
            {one.id for one in self.population.alive if one.id not in refused}
        )
        self._log_pruned(step, dropped)
        return dropped

    def _log_pruned(self, step: int, dropped: tuple[str, ...]) -> None:
        if dropped:
            alive = tuple(candidate.id for candidate in self.population.alive)
            self.log.append(events.Pruned(step, dropped, alive))

    def _kept(
        self,
        step: int,
        parents: Sequence[CandidateStats],
        candidate_stats: Sequence[CandidateStats],
    ) -> set[str]:
        """Ids of those that stay beside the offspring.

        All do at the start, before any reward, and where some of the offspring are among them.
        """
        before = self.schedule.unfilled
        if not step or (before is not None and before.admitted):
            return {stats.candidate.id for stats in candidate_stats}
        return {
            *self.selection.unmeasured(candidate_stats),
            *(parent.candidate.id for parent in parents),
            *(self.selection.pinned & {stats.candidate.id for stats in candidate_stats}),
        }

    def _parents(self, candidate_stats: Sequence[CandidateStats]) -> list[CandidateStats]:
        """Whom to improve: in a generation that goes on, the same as before if they are alive."""
        if self.schedule.unfilled is not None:
            ids = [parent.id for parent in self.schedule.parents]
            if found := [stats for stats in candidate_stats if stats.candidate.id in ids]:
                return sorted(found, key=lambda stats: ids.index(stats.candidate.id))
        return self.selection.parents(candidate_stats)

    def _request(
        self, step: int, parents: Sequence[CandidateStats] | None = None
    ) -> ProposalRequest:
        """What a proposer that thinks ahead is asked: to improve those who lead at this moment."""
        before = self.schedule.unfilled
        places = self.config.population_size - self.config.parents
        living = self.selection.candidate_stats()
        return self.generations.request(
            parents or self._parents(living),
            max(places if before is None else before.places, 1),
            step,
            self.selection.history,
            living,
        )
