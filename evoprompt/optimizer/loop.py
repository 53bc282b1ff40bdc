"""The loop over a policy that stays as it is: reflect, try, race; nothing is measured twice.

It is not the engine's. Beside a training every weight ages, so the engine samples all candidates
all the time. A frozen policy gives the same answer tomorrow: what was measured stays true, question
by question, and a candidate needs no more rollouts than tell it from its parent. The roles are the
same: proposers, candidates, trajectories, screening, events.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Generic

from evoprompt import events
from evoprompt.errors import InputError
from evoprompt.evaluation import REWARD
from evoprompt.eventlog import EventLog
from evoprompt.optimizer.credit import Credit
from evoprompt.optimizer.data import ExampleT, Item
from evoprompt.optimizer.evaluator import INTERRUPTED, Evaluator, warning_of
from evoprompt.optimizer.judge import Judge
from evoprompt.optimizer.lessons import Lessons
from evoprompt.optimizer.merging import merged, nearest_ancestor
from evoprompt.optimizer.outcome import (
    FAILS_NOTHING,
    PERFECT,
    RIGHT_WHERE_SCORED,
    BudgetSpentError,
    ProposerError,
)
from evoprompt.optimizer.result import OptimizationResult, Point
from evoprompt.optimizer.runner import OutputT, WrittenT
from evoprompt.optimizer.value import corrected
from evoprompt.optimizer.writing import Writer
from evoprompt.roles import ProposalRequest
from evoprompt.summaries import excerpts_of
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


class Loop(Generic[WrittenT, ExampleT, OutputT]):
    """Improves a candidate until a limit is reached or nothing is left to improve.

    Args:
        evaluator: measures.
        writer: brings new candidates.
        judge: tells whether they are better.
        lessons: finds what to learn from.
        emit: takes the events.
        seeds: where to start; the first is measured before the others are compared with it.
        seed: of every choice.
        proposals: texts asked for in an iteration.
        patience: iterations without a new incumbent after which it ends; None for as many as take
            a third of the budget, and 50 at least.

    Attributes:
        born: all candidates by their ids.
        incumbent: the best so far.
        curve: how it came to be.
        iteration: of propose and try.
    """

    def __init__(
        self,
        evaluator: Evaluator[WrittenT, ExampleT, OutputT],
        writer: Writer,
        judge: Judge[WrittenT, ExampleT, OutputT],
        lessons: Lessons[WrittenT, ExampleT, OutputT],
        emit: Callable[[events.Event], None],
        seeds: Sequence[Proposal],
        seed: int,
        proposals: int,
        patience: int | None,
    ) -> None:
        self._evaluator = evaluator
        self._ledger = evaluator.ledger
        self._writer = writer
        self._judge = judge
        self._lessons = lessons
        self._emit = emit
        self._seed = seed
        self._proposals = proposals
        self._patience = patience
        self._credit = Credit(seeds[0].components)
        self._seeds = [writer.seed(one) for one in seeds]
        self.incumbent = self.first = self._seeds[0]
        self.born = {one.id: one for one in self._seeds}
        self.curve: list[Point] = []
        self.iteration = 0
        self._runners: deque[Candidate] = deque(maxlen=_LIVING)
        self._merged: set[tuple[str, str]] = set()
        self._stats: dict[str, CandidateStats] = {}
        self._stale = self._barren = self._spent_before = 0
        self._told_of_failures = False

    def run(self) -> str:
        """Goes on until something ends it, and returns what did.

        Raises:
            InputError: the seed cannot be measured, because the program or the metric is at fault,
                or the proposer has failed whenever it was asked.
        """
        for one in self._seeds:
            self._emit(events.Seeded(0, one.id, dict(one.components), one.rationale))
        try:
            self._judge.deepen(self.first)
        except BudgetSpentError as spent:  # a good seed: finding its failures takes many questions
            if not self._judge.depth:
                raise InputError(f"{spent}, and nothing was measured; required: more") from spent
        self._evaluator.require_scored()
        self._note()
        reason = self._improve()
        if reason != INTERRUPTED:
            self._require_proposer()
        self._tell_of_ties()
        return reason

    def _improve(self) -> str:
        """Goes on until something ends it, and returns what did."""
        try:
            for one in self._seeds[1:]:
                self._enter(one)
            while not (reason := self._ended()):
                self.iteration += 1
                self._evaluator.step = self.iteration
                reason = self._iterate()
                if reason:
                    break
            self._conclude()
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
        wins = self._judge.wins(other, self.incumbent, lenient=False)
        self._runners.append(self.incumbent if wins else other)
        self._stats[other.id] = self._stats_of(other)
        if wins:
            self.incumbent = other
            self._judge.deepen(other)
            self._note()

    def _require_proposer(self) -> None:
        """Nothing, unless the proposer has failed whenever it was asked.

        Raises:
            ProposerError: it has.
        """
        if self._writer.failures:
            raise ProposerError(
                f"{self._writer.complaint}; so it went each of the {self._writer.failures} times "
                "it was asked; required: a proposer that works; remove the cause, and go on with "
                "resume=DIR where a directory was given"
            )

    def _tell_of_failures(self) -> None:
        """Says so, once, while it is not too late, where more fails than now and then."""
        found = self._evaluator.failures
        if not self._told_of_failures and found.are_many and found.of >= _SOON:
            self._told_of_failures = True
            self._emit(
                events.Notice(self.iteration, f"of the rollouts until now {warning_of(found)}")
            )

    def _tell_of_ties(self) -> None:
        """Says so where the first seed is the best one, and others are as good."""
        if self.incumbent is not self.first:
            return
        value, _, asked = self._judge.value(self.first)
        equal = [
            name
            for name in self._stats
            if name != self.first.id and self._judge.value(self.born[name])[::2] == (value, asked)
        ]
        if equal:
            tied = f"{', '.join(equal[:8])}{' and others' if len(equal) > 8 else ''}"
            told = f"{tied} did as well as the seed instruction on the {asked} validation questions"
            self._emit(
                events.Notice(
                    self.iteration, f"{told} in use: a tie, in which the seed is taken for the best"
                )
            )

    def test(self, items: Sequence[Item[ExampleT]]) -> None:
        """Measures the incumbent on questions that had no part in choosing it.

        Raises:
            BudgetSpentError: a limit does not leave room for them.
            InputError: the metric or the program is at fault.
        """
        self._evaluator.measure(self.incumbent, items)
        value, _, scored = self._ledger.mean(self.incumbent.id, [one.question.id for one in items])
        if scored:
            spent, metrics = self._evaluator.spent, {REWARD.name: value, "questions": float(scored)}
            self._emit(
                events.Evaluated(
                    self.iteration, "test", self.incumbent.id, spent, metrics, {}, REWARD
                )
            )

    def result(
        self, stopped: str, log: EventLog, test: Sequence[Item[ExampleT]] = ()
    ) -> OptimizationResult:
        """What was found until now."""
        validation, stderr, asked = self._judge.value(self.incumbent)
        names = [one.question.id for one in test]
        tested, error, scored = self._ledger.mean(self.incumbent.id, names)
        if scored:
            value, stderr, asked = tested, error, scored
        else:
            others = [self._judge.rewards(one) for one in self.born.values()]
            mine = self._judge.rewards(self.incumbent)
            value = corrected(mine, [one for one in others if one != mine], self._seed)
        return OptimizationResult(
            best=self.incumbent,
            value=value,
            stderr=stderr,
            asked=asked,
            candidates=tuple(self._stats.values()),
            curve=tuple(self.curve),
            rollouts=self._evaluator.spent,
            iterations=self.iteration,
            stopped=stopped,
            log=log,
            seed=self._seed,
            validation=validation,
            tested=scored > 0,
            failures=self._evaluator.failures,
        )

    def _ended(self) -> str:
        """Why no further iteration is made; empty if one is."""
        if self._judge.is_done(self.incumbent):
            failed = self._judge.unscored(self.incumbent)
            if not failed:
                return PERFECT
            if scored := self._judge.depth - failed:
                return RIGHT_WHERE_SCORED.format(scored=scored, failed=failed)
        if self._is_stuck():
            return f"no progress in {self._stale} iterations"
        if self._barren >= _BARREN:
            why = f", the last time because {found}" if (found := self._writer.complaint) else ""
            return f"the proposer wrote nothing that could be tried {_BARREN} times in a row{why}"
        total = self._evaluator.spent + self._evaluator.left
        if self._evaluator.left <= min(self._judge.unasked, _RESERVE * total):
            return "the budget is spent but for the final measurement"
        return ""

    def _is_stuck(self) -> bool:
        """Whether it has brought nothing for as long as it is let."""
        if self._patience is not None:
            return self._stale >= self._patience
        total = self._evaluator.spent + self._evaluator.left
        # A text that was tried before may cost no rollout, but the proposer was asked for it.
        idle = max(self._evaluator.spent - self._spent_before, _LEAST_COST * self._stale)
        return self._stale >= _IDLE and idle >= _IDLE_SHARE * total

    def _iterate(self) -> str:
        """One iteration; returns why it was the last one, if it was."""
        rng = random.Random(f"{self._seed}/{self.iteration}")
        before, spent = self.incumbent, self._evaluator.spent
        admitted: list[str] = []
        children = self._merger()
        if children:
            parent, focus, component = self.incumbent, children[1], ""
            fresh = children[0]
        else:
            parent = self._parent(rng)
            likely = 1.0 - min(max(self._judge.value(self.incumbent)[0], 0.0), 1.0)
            focus = self._lessons.failures(parent, likely, self._stale, rng)
            if not focus and parent is not self.incumbent:
                parent = self.incumbent
                focus = self._lessons.failures(parent, likely, self._stale, rng)
            if not focus:
                return FAILS_NOTHING
            component = self._credit.choose(rng)
            fresh = self._write(parent, focus, component, rng)
            self._barren = 0 if fresh else self._barren + 1
        for child in fresh:
            self.born[child.id] = child
            if self._try(child, parent, focus):
                admitted.append(child.id)
            if component:
                self._credit.learn(component, child.id in admitted)
        new = fresh if self.iteration > 1 else [parent, *fresh]  # whom nobody has seen yet
        if excerpts := excerpts_of([one for who in new for one in self._lessons.tried(who)]):
            self._emit(events.Shown(self.iteration, excerpts))
        self._stale = 0 if self.incumbent is not before else self._stale + 1
        self._ledger.doubt(self._stale)
        living = dict.fromkeys((self.incumbent.id, *(one.id for one in self._runners)))
        self._emit(
            events.Evolved(
                self.iteration,
                1,
                tuple(admitted),
                tuple(living),
                self._evaluator.spent - spent,
                "" if fresh else "nothing that could be tried was proposed",
            )
        )
        self._tell_of_failures()
        if self.incumbent is not before:
            self._judge.deepen(self.incumbent)
            self._spent_before = self._evaluator.spent
            self._note()
        return ""

    def _parent(self, rng: random.Random) -> Candidate:
        """The incumbent; now and then, without progress, one that is better at some question."""
        if rng.random() < min(_OFTEN, _ELSEWHERE * self._stale):
            better = self._better_somewhere(self._runners)
            if better:
                return rng.choice(better)
        return self.incumbent

    def _better_somewhere(self, among: Iterable[Candidate]) -> list[Candidate]:
        """Those on the front of a question at which the incumbent is not, once for each."""
        living = {one.id: one for one in among}  # few, where a front may have all
        found: list[Candidate] = []
        for name in self._ledger.beaten_at(self.incumbent.id):
            front = self._ledger.front(name)
            if not front.isdisjoint(living):
                found += [one for key, one in living.items() if key in front]
        return found

    def _merger(self) -> tuple[list[Candidate], list[Item[ExampleT]]] | None:
        """The incumbent merged with one that is better somewhere, and where; None if all were."""
        mine, done = self.incumbent.id, self._merged
        left = [one for one in self._runners if one.id != mine and (mine, one.id) not in done]
        better = self._better_somewhere(left) if left else []
        for other in dict.fromkeys(one.id for one in reversed(better)):
            pair = (mine, other)
            done.add(pair)
            ancestor = nearest_ancestor(self.incumbent, self.born[other], self.born)
            if ancestor is None:
                continue
            texts = merged(ancestor, self.incumbent, self.born[other])
            proposal = Proposal(texts, pair, f"merged from {pair[0]} and {pair[1]}", "merge")
            living = [self.incumbent, *self._runners]
            fresh = self._writer.screen([proposal], self.incumbent, living, self.iteration)
            focus = self._lessons.where_better(other, self.incumbent.id)
            if fresh and focus:
                return fresh, focus
        return None

    def _write(
        self, parent: Candidate, focus: Sequence[Item[ExampleT]], component: str, rng: random.Random
    ) -> list[Candidate]:
        request = ProposalRequest(
            self._proposals,
            [self._stats_of(parent, detailed=True)],
            [self._evaluator.trajectory(parent, item, component) for item in focus],
            tuple(self._stats.values()),
            rng,
            self.iteration,
            required=self._writer.required,
            component=component,
            successes=self._lessons.successes(focus, self.born, component),
        )
        living = list({one.id: one for one in (parent, self.incumbent, *self._runners)}.values())
        return self._writer.write(request, [item.guarded for item in focus], living)

    def _try(self, child: Candidate, parent: Candidate, focus: Sequence[Item[ExampleT]]) -> bool:
        """Whether ``child`` was accepted; makes it the incumbent if it is better than that."""
        gained = self._judge.improves(child, parent, focus)
        wins = False
        if gained or self._judge.blind:
            heir = parent is self.incumbent
            wins = self._judge.wins(child, self.incumbent, gained and heir, heir)
        accepted = gained or wins
        reason = "" if accepted else f"no better than {parent.id}"
        asked = [item.question.id for item in focus]
        if missing := self._evaluator.unscored(child, asked):
            failed = f"the program failed at {missing} of {len(asked)} of its questions"
            reason = f"{reason}; {failed}" if reason else failed
        if accepted:
            self._runners.append(self.incumbent if wins else child)
            self.incumbent = child if wins else self.incumbent
        mean, stderr, scored = self._ledger.mean(child.id, self._ledger.means(child.id))
        self._stats[child.id] = self._stats_of(child)
        known = mean if scored else None
        error = stderr if scored > 1 else None
        result = VerificationResult(child, known, error, scored, accepted, reason)
        self._writer.teach(result)
        self._emit(
            events.Verified(
                self.iteration, child.id, 1, known, error, scored, accepted, reason, parent=False
            )
        )
        return accepted

    def _stats_of(self, candidate: Candidate, detailed: bool = False) -> CandidateStats:
        means = self._ledger.means(candidate.id)
        mean, stderr, scored = self._judge.value(candidate)
        if not scored:
            mean, stderr, scored = self._ledger.mean(candidate.id, means)
        return CandidateStats(
            candidate,
            mean if scored else 0.0,
            stderr,
            scored,
            by_question=dict(means) if detailed else {},
        )

    def _note(self) -> None:
        """Adds where the incumbent stands to the curve and to the log."""
        value, _, questions = self._judge.value(self.incumbent)
        spent = self._evaluator.spent
        self._stats[self.incumbent.id] = self._stats_of(self.incumbent)
        self.curve.append(Point(spent, value, self.incumbent.text))
        metrics = {REWARD.name: value, "questions": float(questions)}
        self._emit(
            events.Evaluated(
                self.iteration, "validation", self.incumbent.id, spent, metrics, {}, REWARD
            )
        )

    def _conclude(self) -> None:
        """Measures the incumbent on the whole validation set, as far as the budget allows."""
        if not self._judge.unasked or self._evaluator.left < self._judge.unasked:
            return
        self._judge.deepen(self.incumbent, whole=True)
        self._note()
