"""The loop over a model that stays as it is: reflect, try, compare; nothing is measured twice.

It is not the engine's. Beside a training every weight ages, so the engine samples all candidates
all the time. A frozen model gives the same answer tomorrow: what was measured stays true, question
by question, and a candidate needs no more rollouts than tell it from its parent. The roles are the
same: proposers, candidates, trajectories, screening, events.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from evoprompt import events
from evoprompt.errors import InputError
from evoprompt.evaluation import REWARD
from evoprompt.optimizer.comparison import Comparison
from evoprompt.optimizer.data import Item
from evoprompt.optimizer.failures import FailureFinder
from evoprompt.optimizer.options import OptimizeOptions
from evoprompt.optimizer.outcome import (
    FAILS_NOTHING,
    INTERRUPTED,
    PERFECT,
    RIGHT_WHERE_SCORED,
    BudgetSpentError,
    ProposerError,
)
from evoprompt.optimizer.result import Point
from evoprompt.optimizer.results import SURE, Results, warning_of
from evoprompt.optimizer.writer import Writer
from evoprompt.roles import ProposalRequest
from evoprompt.summaries import excerpts_of
from evoprompt.text import sentences
from evoprompt.types import Candidate, CandidateStats, Proposal, VerificationResult

_LIVING = 16  # accepted candidates that may still be parents, beside the incumbent
_BARREN = 10  # iterations in a row without a usable text after which the proposer is given up
_ELSEWHERE = 0.05  # chance of another parent than the incumbent, per iteration without progress ...
_OFTEN = 0.5  # ... and the most it grows to
_IDLE = 50  # iterations in a row without progress after which it ends, if they took ...
_IDLE_SHARE = 1 / 3  # ... this share of the budget
_LEAST_COST = 3  # rollouts that an iteration counts for at least in that share
_SOON = 20  # rollouts after which failures among them are told of before the end
_RESERVE = 0.25  # share of the budget that is kept at most for the final measurement


class Loop:
    """Improves a candidate until a limit is reached or nothing is left to improve.

    Args:
        results: measures, and keeps what was measured.
        comparison: tells whether a candidate is better.
        failures: finds what to learn from.
        writer: brings new candidates.
        emit: takes the events.
        seeds: where to start; the first is measured before the others are compared with it.
        options: the seed of every choice, and when to end.

    Attributes:
        incumbent: the best so far.
        born: all candidates by their ids.
        stats: of those that were tried.
        curve: how the incumbent came to be.
        iteration: of propose and try.
    """

    def __init__(
        self,
        results: Results,
        comparison: Comparison,
        failures: FailureFinder,
        writer: Writer,
        emit: Callable[[events.Event], None],
        seeds: Sequence[Proposal],
        options: OptimizeOptions,
    ) -> None:
        self._results = results
        self._comparison = comparison
        self._failures = failures
        self._writer = writer
        self._emit = emit
        self._options = options
        self._seeds = [writer.seed(one) for one in seeds]
        self.incumbent = self._seeds[0]
        self.born = {one.id: one for one in self._seeds}
        self.stats: dict[str, CandidateStats] = {}
        self.curve: list[Point] = []
        self.iteration = 0
        self._components = {name: [1.0, 1.0] for name in seeds[0].components}
        self._runners: deque[Candidate] = deque(maxlen=_LIVING)
        self._merged: set[tuple[str, str]] = set()
        self._stale = self._barren = self._spent_before = 0
        self._told_of_failures = False

    def run(self) -> str:
        """Goes on until something ends it, and returns what did.

        Raises:
            InputError: the seed cannot be measured, because the program or the metric is at fault.
            ProposerError: the proposer has failed whenever it was asked.
        """
        for one in self._seeds:
            self._emit(events.Seeded(0, one.id, dict(one.components), one.rationale))
        try:
            self._comparison.deepen(self.incumbent)
        except BudgetSpentError as spent:  # a good seed: finding its failures takes many questions
            if not self._comparison.depth:
                raise InputError(f"{spent}, and nothing was measured; required: more") from spent
        self._results.require_scored()
        self._note()
        reason = self._improve()
        if self._writer.failures and reason != INTERRUPTED:
            raise ProposerError(
                f"{self._writer.complaint}; so it went each of the {self._writer.failures} times "
                "it was asked; required: a proposer that works; remove the cause, and go on with "
                "resume where a directory was given"
            )
        return reason

    def _improve(self) -> str:
        try:
            for one in self._seeds[1:]:
                self._enter(one)
            while not (reason := self._ended()):
                self.iteration += 1
                self._results.step = self.iteration
                reason = self._iterate()
                if reason:
                    break
            if 0 < self._comparison.unasked <= self._results.meter.left:
                self._comparison.deepen(self.incumbent, whole=True)
                self._note()
        except BudgetSpentError as spent:
            return str(spent)
        except KeyboardInterrupt:
            return INTERRUPTED
        except InputError as fault:  # what was found until now is worth more than a traceback
            self._emit(events.Notice(self.iteration, f"stopped: {fault}"))
            return str(fault)
        return reason

    def _enter(self, other: Candidate) -> None:
        """Compares a further seed with the best one."""
        wins = self._comparison.wins(other, self.incumbent, gained=False)
        self._runners.append(self.incumbent if wins else other)
        self.stats[other.id] = self._stats_of(other)
        if wins:
            self.incumbent = other
            self._comparison.deepen(other)
            self._note()

    def test(self, items: Sequence[Item]) -> None:
        """Measures the incumbent on questions that had no part in choosing it.

        Raises:
            BudgetSpentError: a limit does not leave room for them.
            InputError: the metric or the program is at fault.
        """
        self._results.measure(self.incumbent, items)
        names = [item.question.id for item in items]
        value, _, scored = self._results.mean(self.incumbent, names)
        if scored:
            self._emit_evaluated("test", value, scored)

    def _ended(self) -> str:
        """Why no further iteration is made; empty if one is."""
        comparison, meter = self._comparison, self._results.meter
        if comparison.is_done(self.incumbent):
            failed = comparison.unscored(self.incumbent)
            if not failed:
                return PERFECT
            if scored := comparison.depth - failed:
                return RIGHT_WHERE_SCORED.format(scored=scored, failed=failed)
        if self._is_stuck():
            return f"no progress in {self._stale} iterations"
        if self._barren >= _BARREN:
            why = f", the last time because {found}" if (found := self._writer.complaint) else ""
            return f"the proposer wrote nothing that could be tried {_BARREN} times in a row{why}"
        if meter.left <= min(comparison.unasked, _RESERVE * meter.limit):
            return "the budget is spent but for the final measurement"
        return ""

    def _is_stuck(self) -> bool:
        """Whether it has brought nothing for as long as it is let."""
        if self._options.patience is not None:
            return self._stale >= self._options.patience
        # A text that was tried before may cost no rollout, but the proposer was asked for it.
        meter = self._results.meter
        idle = max(meter.spent - self._spent_before, _LEAST_COST * self._stale)
        return self._stale >= _IDLE and idle >= _IDLE_SHARE * meter.limit

    def _iterate(self) -> str:
        """One iteration; returns why it was the last one, if it was."""
        rng = random.Random(f"{self._options.seed}/{self.iteration}")
        before, spent = self.incumbent, self._results.meter.spent
        parent, component = before, ""
        merger = self._merger()
        if merger:
            fresh, focus = merger
        else:
            parent = self._parent(rng)
            focus = self._failures.find(parent, self._stale, rng)
            if not focus and parent is not before:
                parent = before
                focus = self._failures.find(parent, self._stale, rng)
            if not focus:
                return FAILS_NOTHING
            component = self._component(rng)
            fresh = self._write(parent, focus, component, rng)
            self._barren = 0 if fresh else self._barren + 1
        admitted: list[str] = []
        for child in fresh:
            self.born[child.id] = child
            if self._try(child, parent, focus):
                admitted.append(child.id)
            if component:
                self._learn(component, child.id in admitted)
        new = fresh if self.iteration > 1 else [parent, *fresh]  # whom nobody has seen yet
        if excerpts := excerpts_of([one for who in new for one in self._failures.tried(who)]):
            self._emit(events.Shown(self.iteration, excerpts))
        improved = self.incumbent is not before
        self._stale = 0 if improved else self._stale + 1
        self._results.sure = SURE + 2 * self._stale  # luck may be why nothing has come
        self._emit(
            events.Evolved(
                self.iteration,
                1,
                tuple(admitted),
                tuple(dict.fromkeys(one.id for one in self._living())),
                self._results.meter.spent - spent,
                "" if fresh else "nothing that could be tried was proposed",
            )
        )
        self._tell_of_failures()
        if improved:
            self._comparison.deepen(self.incumbent)
            self._spent_before = self._results.meter.spent
            self._note()
        return ""

    def _living(self) -> list[Candidate]:
        return [self.incumbent, *self._runners]

    def _parent(self, rng: random.Random) -> Candidate:
        """The incumbent; now and then, without progress, one that is better at some question."""
        if rng.random() < min(_OFTEN, _ELSEWHERE * self._stale):
            better = [one for one in self._runners if self._is_better_somewhere(one)]
            if better:
                return rng.choice(better)
        return self.incumbent

    def _is_better_somewhere(self, other: Candidate) -> bool:
        mine, theirs = self._results.means(self.incumbent), self._results.means(other)
        return any(theirs[name] > mine[name] for name in theirs if name in mine)

    def _component(self, rng: random.Random) -> str:
        """The one to rewrite: as likely as it is that rewriting it helps most (Thompson, 1933)."""
        draws = {name: rng.betavariate(*found) for name, found in self._components.items()}
        return max(draws, key=draws.__getitem__)

    def _learn(self, component: str, accepted: bool) -> None:
        """Counts a rewritten text; what was long ago counts for less."""
        for found in self._components.values():
            found[:] = (1 + 0.9 * (count - 1) for count in found)
        self._components[component][0 if accepted else 1] += 1

    def _merger(self) -> tuple[list[Candidate], list[Item]] | None:
        """The incumbent merged with one that is better somewhere, and where; None if all were."""
        mine = self.incumbent
        for other in reversed(self._runners):
            pair = (mine.id, other.id)
            if pair in self._merged or other.id == mine.id or not self._is_better_somewhere(other):
                continue
            self._merged.add(pair)
            ancestor = nearest_ancestor(mine, other, self.born)
            if ancestor is None:
                continue
            texts = merged(ancestor, mine, other)
            proposal = Proposal(texts, pair, f"merged from {pair[0]} and {pair[1]}", "merge")
            fresh = self._writer.screen([proposal], mine, self._living(), self.iteration)
            focus = self._failures.where_better(other, mine)
            if fresh and focus:
                return fresh, focus
        return None

    def _write(
        self, parent: Candidate, focus: Sequence[Item], component: str, rng: random.Random
    ) -> list[Candidate]:
        request = ProposalRequest(
            self._options.proposals,
            [self._stats_of(parent, detailed=True)],
            [self._results.trajectory(parent, item, component) for item in focus],
            tuple(self.stats.values()),
            rng,
            self.iteration,
            component=component,
            successes=self._failures.successes(focus, component),
        )
        living = {one.id: one for one in (parent, *self._living())}
        return self._writer.write(request, [item.guarded for item in focus], list(living.values()))

    def _try(self, child: Candidate, parent: Candidate, focus: Sequence[Item]) -> bool:
        """Whether ``child`` was accepted; makes it the incumbent if it is better than that."""
        gained = self._comparison.improves(child, parent, focus)
        self._failures.note(child, focus)
        wins = False
        if gained or self._comparison.is_blind:
            heir = parent is self.incumbent
            wins = self._comparison.wins(child, self.incumbent, gained and heir)
        accepted = gained or wins
        reasons = [] if accepted else [f"no better than {parent.id}"]
        asked = [item.question.id for item in focus]
        if missing := self._results.unscored(child, asked):
            reasons.append(f"the program failed at {missing} of {len(asked)} of its questions")
        if accepted:
            self._runners.append(self.incumbent if wins else child)
            self.incumbent = child if wins else self.incumbent
        mean, stderr, scored = self._results.mean(child, self._results.means(child))
        self.stats[child.id] = self._stats_of(child)
        result = VerificationResult(
            child,
            mean if scored else None,
            stderr if scored > 1 else None,
            scored,
            accepted,
            "; ".join(reasons),
        )
        self._writer.teach(result)
        self._emit(
            events.Verified(
                self.iteration,
                child.id,
                1,
                result.mean,
                result.stderr,
                scored,
                accepted,
                result.reason,
                parent=False,
            )
        )
        return accepted

    def _stats_of(self, candidate: Candidate, detailed: bool = False) -> CandidateStats:
        means = self._results.means(candidate)
        mean, stderr, scored = self._comparison.value(candidate)
        if not scored:
            mean, stderr, scored = self._results.mean(candidate, means)
        return CandidateStats(
            candidate,
            mean if scored else 0.0,
            stderr,
            scored,
            by_question=dict(means) if detailed else {},
        )

    def _note(self) -> None:
        """Adds where the incumbent stands to the curve and to the log."""
        value, _, questions = self._comparison.value(self.incumbent)
        self.stats[self.incumbent.id] = self._stats_of(self.incumbent)
        self.curve.append(Point(self._results.meter.spent, value, self.incumbent.text))
        self._emit_evaluated("validation", value, questions)

    def _emit_evaluated(self, split: str, value: float, questions: int) -> None:
        metrics = {REWARD.name: value, "questions": float(questions)}
        spent = self._results.meter.spent
        self._emit(
            events.Evaluated(self.iteration, split, self.incumbent.id, spent, metrics, {}, REWARD)
        )

    def _tell_of_failures(self) -> None:
        """Says so, once, while it is not too late, where more fails than now and then."""
        found = self._results.failures
        if not self._told_of_failures and found.are_many and found.of >= _SOON:
            self._told_of_failures = True
            self._emit(
                events.Notice(self.iteration, f"of the rollouts until now {warning_of(found)}")
            )


def nearest_ancestor(
    one: Candidate, other: Candidate, born: Mapping[str, Candidate]
) -> Candidate | None:
    """The latest candidate that both descend from; None if there is none, or one is the other's."""
    mine, theirs = _lineage(one, born), _lineage(other, born)
    if one.id in theirs or other.id in mine:
        return None
    return next((born[name] for name in mine if name in theirs), None)


def _lineage(candidate: Candidate, born: Mapping[str, Candidate]) -> list[str]:
    """The ids of ``candidate`` and of all that it descends from, the nearest first."""
    found = [candidate.id]
    for name in found:
        found += [parent for parent in born[name].parents if parent not in found]
    return found


def merged(ancestor: Candidate, one: Candidate, other: Candidate) -> dict[str, str]:
    """The texts of ``one`` with what ``other`` changed since ``ancestor``.

    A component that only one of them changed is that one's. Where both did, ``other``'s new
    sentences follow those of ``one``, and what it dropped is dropped.
    """
    texts = {}
    for name, before in ancestor.components.items():
        mine, theirs = one.components[name], other.components[name]
        if theirs == before or mine == theirs:
            texts[name] = mine
        elif mine == before:
            texts[name] = theirs
        else:
            old, known, new = (sentences(text) for text in (before, mine, theirs))
            for sentence in old:
                if sentence not in new:
                    mine = mine.replace(sentence, "")
            added = [sentence for sentence in new if sentence not in (*old, *known)]
            texts[name] = " ".join([mine.strip(), *added])
    return texts
