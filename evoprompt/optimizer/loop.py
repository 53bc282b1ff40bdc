"""The loop over a model that stays as it is: reflect, try, compare; nothing is measured twice.

It is not the engine's. Beside a training every weight ages, so the engine samples all candidates
all the time. A frozen model gives the same answer tomorrow: what was measured stays true, question
by question, and a candidate needs no more rollouts than tell it from its parent. The roles are the
same: proposers, candidates, trajectories, screening, events.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evoprompt.log import events
from evoprompt.log.evaluation import REWARD
from evoprompt.log.summaries import differences_of, excerpts_of
from evoprompt.optimizer.comparison import Comparison
from evoprompt.optimizer.data import Item
from evoprompt.optimizer.failures import FailureFinder
from evoprompt.optimizer.flat import FlatRewardWatch
from evoprompt.optimizer.options import OptimizeOptions
from evoprompt.optimizer.outcome import (
    FAILS_NOTHING,
    INTERRUPTED,
    PERFECT,
    RIGHT_WHERE_SCORED,
    BudgetSpentError,
)
from evoprompt.optimizer.population import Population
from evoprompt.optimizer.result import Point
from evoprompt.optimizer.results import SURE, Results, warning_of
from evoprompt.optimizer.writer import Writer
from evoprompt.roles import ProposalRequest
from evoprompt.support.errors import InputError
from evoprompt.types import (
    ADMITTED,
    REJECTED,
    Candidate,
    CandidateStats,
    Proposal,
    VerificationResult,
)

_BARREN = 10  # iterations in a row without a usable text after which the proposer is given up
_FREE = 50  # iterations in a row that had nothing to ask, as all texts and answers were known
_SETTLED = 10
"""Iterations in a row without progress that end it where the whole validation set is right.

Until then it goes on with what it fails of the training set: with ten validation questions up to
eleven of twenty seeds ended too early with 0, up to four with 6 and up to three with 10
(docs/notes/2026-11-27-nothing-set.md).
"""
_SOON = 20  # rollouts after which failures among them are told of before the end
_RESERVE = 0.25  # share of the budget that is kept at most for the final measurement


@dataclass(eq=False)
class Loop:
    """Improves a candidate until a limit is reached or nothing is left to improve.

    Attributes:
        results: measures, and keeps what was measured.
        comparison: tells whether a candidate is better.
        failures: finds what to learn from.
        writer: brings new candidates.
        emit: takes the events.
        seeds: where to start; the first is measured before the others are compared with it.
        options: the seed of every choice, and when to end.
        incumbent: the best so far.
        stats: of those that were tried.
        curve: how the incumbent came to be.
        iteration: of propose and try.
    """

    results: Results
    comparison: Comparison
    failures: FailureFinder
    writer: Writer
    emit: Callable[[events.Event], None]
    seeds: Sequence[Proposal]
    options: OptimizeOptions

    def __post_init__(self) -> None:
        """Begins with the seeds."""
        self._seeds = [self.writer.seed(seed) for seed in self.seeds]
        self.incumbent = self._seeds[0]
        self.population = Population(self.results)
        self.population.add(self.incumbent, is_spare=True)
        self.stats: dict[str, CandidateStats] = {}
        self.curve: list[Point] = []
        self.iteration = 0
        self._components = list(self.seeds[0].components)
        self._stale = self._barren = self._free = 0
        self._told_of_failures = False
        can_stop = self.options.patience is None
        self._flat = FlatRewardWatch(
            self.results.rewards, self.options.perfect, can_stop, len(self._components)
        )
        self._refused: Candidate | None = None  # the latest that was no better than the incumbent

    def run(self) -> str:
        """Goes on until something ends it, and returns what did.

        Raises:
            InputError: the seed cannot be measured, because the program or the metric is at fault,
                or the proposer has failed whenever it was asked.
        """
        for seed in self._seeds:
            self.emit(events.Seeded(0, seed.id, dict(seed.components), seed.rationale))
        try:
            self.comparison.deepen(self.incumbent)
        except BudgetSpentError as spent:  # a good seed: finding its failures takes many questions
            if not self.comparison.depth:
                raise InputError(f"{spent}, and nothing was measured; required: more") from spent
        self.results.require_scored()
        self._note()
        reason = self._improve()
        if self.writer.failures and reason != INTERRUPTED:
            raise InputError(
                f"{self.writer.complaint}; so it went each of the {self.writer.failures} times "
                "it was asked; required: a proposer that works; remove the cause, and go on with "
                "resume where a directory was given"
            )
        return reason

    def _improve(self) -> str:
        try:
            self._enter(self._seeds[1:])
            while not (reason := self._ended()):
                self.iteration += 1
                self.results.step = self.iteration
                reason = self._iterate()
                if reason:
                    break
            if reason == self._flat.stop_reason:  # more questions would cost and show nothing
                self.emit(events.Notice(self.iteration, f"stopped: {reason}"))
                return reason
            if 0 < self.comparison.num_unused <= self.results.meter.left:
                self.comparison.deepen(self.incumbent, whole=True)
                self._note()
        except BudgetSpentError as spent:
            return str(spent)
        except KeyboardInterrupt:
            return INTERRUPTED
        except InputError as fault:  # what was found until now is worth more than a traceback
            self.emit(events.Notice(self.iteration, f"stopped: {fault}"))
            return str(fault)
        return reason

    def _enter(self, others: Sequence[Candidate]) -> None:
        """Compares further seeds with the first one."""
        found = self.comparison.winner(others, self.incumbent, ahead=False)
        for one in others:
            self.stats[one.id] = self._stats_of(one)
            self.population.add(one, is_spare=True)
        if found is not None:
            self._succeed(found)

    def _succeed(self, winner: Candidate) -> None:
        """Makes ``winner`` the incumbent."""
        self.incumbent = winner
        self.population.add(winner, is_spare=True)
        self.comparison.deepen(winner)
        self._note()

    def test(self, items: Sequence[Item]) -> None:
        """Measures the incumbent on questions that had no part in choosing it.

        Raises:
            BudgetSpentError: a limit does not leave room for them.
            InputError: the metric or the program is at fault.
        """
        self.results.measure((self.incumbent, item) for item in items)
        names = [item.question.id for item in items]
        value, _, scored = self.results.mean(self.incumbent, names)
        if scored:
            self._emit_evaluated("test", value, scored)

    def _ended(self) -> str:
        """Why no further iteration is made; empty if one is."""
        comparison, meter = self.comparison, self.results.meter
        if self._stale >= _SETTLED and (reason := self._right()):
            return reason
        if self.options.patience is not None and self._stale >= self.options.patience:
            return f"no progress in {self._stale} iterations"
        if self._barren >= _BARREN:
            why = f", the last time because {found}" if (found := self.writer.complaint) else ""
            return f"the proposer wrote nothing that could be tried {_BARREN} times in a row{why}"
        if reason := self._flat.stop_reason:
            return reason
        if self._free >= _FREE:
            return f"the proposer repeated itself {_FREE} times, and all its texts were measured"
        if meter.left <= min(comparison.num_unused, _RESERVE * meter.limit):
            return "the budget is spent but for the final measurement"
        return ""

    def _right(self) -> str:
        """That the incumbent is right on the validation set; empty where it is not."""
        comparison = self.comparison
        failed = comparison.unscored(self.incumbent)
        scored = comparison.depth - failed
        if not comparison.is_done(self.incumbent) or not scored:
            return ""
        return RIGHT_WHERE_SCORED.format(scored=scored, failed=failed) if failed else PERFECT

    def _iterate(self) -> str:
        """One iteration; returns why it was the last one, if it was."""
        rng = random.Random(f"{self.options.seed}/{self.iteration}")
        spent = self.results.meter.spent
        parent = self.population.choose_parent(self.incumbent, self._stale, rng)
        num_rewards = self.results.rewards.count
        focus = self.failures.find(parent, self._stale, rng)
        if not focus and parent is not self.incumbent:
            parent = self.incumbent
            focus = self.failures.find(parent, self._stale, rng)
        if not focus:
            return self._right() or FAILS_NOTHING
        fresh = self._write(parent, focus, rng)
        self._barren = 0 if fresh else self._barren + 1
        if fresh:
            self.population.count_repeats(parent, all(map(self.population.has, fresh)))
        better = self.comparison.improving(fresh, parent, focus)
        winner = self.comparison.winner(better, self.incumbent, ahead=parent is self.incumbent)
        names = [item.question.id for item in focus]
        for child in fresh:
            lead = self.results.lead(child, parent, names)
            self.population.add(child, is_spare=abs(lead.value) < 1e-9 and lead.stderr < math.inf)
            self.failures.record_items(child, focus)
            self._tell(child, child is winner, focus)
        new = fresh if self.iteration > 1 else [parent, *fresh]  # whom nobody has seen yet
        if excerpts := excerpts_of([one for who in new for one in self.failures.trajectories(who)]):
            self.emit(events.Shown(self.iteration, excerpts))
        tried = [one for who in (parent, *fresh) for one in self.failures.trajectories(who)]
        for differed in differences_of(self.iteration, tried):
            self.emit(differed)
        self._refused = None if winner else next(reversed(fresh), self._refused)
        self._stale = 0 if winner else self._stale + 1
        self._free = 0 if self.results.meter.spent > spent else self._free + 1
        self.results.sure = SURE + 2 * self._stale  # luck may be why nothing has come
        self.emit(
            events.Evolved(
                self.iteration,
                1,
                (winner.id,) if winner else (),
                ((winner or self.incumbent).id,),
                self.results.meter.spent - spent,
                "" if fresh else "nothing that could be tried was proposed",
            )
        )
        self._tell_of_failures()
        new_rewards = self.results.rewards.count - num_rewards if fresh else 0
        if warning := self._flat.observe(self.iteration, new_rewards):
            self.emit(events.Notice(self.iteration, warning))
        if winner:
            self._succeed(winner)
        return ""

    def _write(
        self, parent: Candidate, focus: Sequence[Item], rng: random.Random
    ) -> list[Candidate]:
        """What is proposed for one component: each has its turn, in another order every time."""
        turn, place = divmod(self.iteration, len(self._components))
        order = random.Random(f"components/{self.options.seed}/{turn}")
        component = order.sample(self._components, len(self._components))[place]
        failed = [self.results.trajectory(parent, item, component) for item in focus]
        if self._refused is not None:
            failed += self.failures.repeated_failures(self._refused, focus, component)
        request = ProposalRequest(
            self.options.proposals,
            [self._stats_of(parent, detailed=True)],
            failed,
            tuple(self.stats.values()),
            rng,
            self.iteration,
            component=component,
            successes=self.failures.successes(focus, component),
        )
        return self.writer.write(request, [item.guarded for item in focus])

    def _tell(self, child: Candidate, accepted: bool, focus: Sequence[Item]) -> None:
        """Tells the log and the proposer what became of ``child``."""
        reasons = [] if accepted else [f"no better than {self.incumbent.id}"]
        asked = [item.question.id for item in focus]
        if missing := self.results.unscored(child, asked):
            reasons.append(f"the program failed at {missing} of {len(asked)} of its questions")
        mean, stderr, scored = self.results.mean(child, self.results.means(child))
        self.stats[child.id] = self._stats_of(child)
        result = VerificationResult(
            child,
            mean if scored else None,
            stderr if scored > 1 else None,
            scored,
            ADMITTED if accepted else REJECTED,
            "; ".join(reasons),
        )
        self.writer.teach(result)
        self.emit(events.Verified.of(result, self.iteration, 1, parent=False))

    def _stats_of(self, candidate: Candidate, detailed: bool = False) -> CandidateStats:
        means = self.results.means(candidate)
        mean, stderr, scored = self.comparison.value(candidate)
        if not scored:
            mean, stderr, scored = self.results.mean(candidate, means)
        return CandidateStats(
            candidate,
            mean if scored else 0.0,
            stderr,
            scored,
            by_question=dict(means) if detailed else {},
        )

    def _note(self) -> None:
        """Adds where the incumbent stands to the curve and to the log."""
        value, _, questions = self.comparison.value(self.incumbent)
        self.stats[self.incumbent.id] = self._stats_of(self.incumbent)
        self.curve.append(Point(self.results.meter.spent, value, self.incumbent.text))
        self._emit_evaluated("validation", value, questions)

    def _emit_evaluated(self, split: str, value: float, questions: int) -> None:
        metrics = {REWARD.name: value, "questions": float(questions)}
        spent = self.results.meter.spent
        self.emit(
            events.Evaluated(self.iteration, split, self.incumbent.id, spent, metrics, {}, REWARD)
        )

    def _tell_of_failures(self) -> None:
        """Says so, once, while it is not too late, where more fails than now and then."""
        found = self.results.failures
        if not self._told_of_failures and found.are_many and found.of >= _SOON:
            self._told_of_failures = True
            self.emit(
                events.Notice(self.iteration, f"of the rollouts until now {warning_of(found)}")
            )
