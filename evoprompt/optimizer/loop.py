"""Optimization loop of a frozen model: reflect, try, compare; nothing is measured twice.

It differs from the loop of the engine. During a training every measurement ages, so the engine
samples all candidates all the time. A frozen model gives the same answer tomorrow: a measurement
stays valid, question by question, and a candidate needs only the rollouts that distinguish it from
its parent. The roles are the same: proposers, candidates, trajectories, screening, events.
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
    StoppedError,
    with_remedy,
)
from evoprompt.optimizer.population import TextPopulation
from evoprompt.optimizer.result import Point
from evoprompt.optimizer.results import SURE, RewardTable, mean_of, warning_of
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

MAX_EMPTY_ITERATIONS = 10  # in a row, without a usable text; then the optimization ends
MAX_CACHED_ITERATIONS = 50  # in a row, without a new rollout, as all of them were cached
PATIENCE_AT_PERFECT_SCORE = 10
"""Iterations in a row without progress, after which a perfect score on the whole validation set
ends the optimization.

Until then it continues with the failures on the training set: with ten validation questions up to
eleven of twenty seeds ended too early with 0, up to four with 6 and up to three with 10
(docs/notes/2026-11-27-nothing-set.md).
"""
_MIN_ROLLOUTS_FOR_WARNING = 20  # before the end, for a warning of failed rollouts
_MAX_RESERVE = 0.25  # share of the budget that is reserved at most for the final measurement


@dataclass(eq=False)
class Loop:
    """Loop that improves a candidate until a limit is reached or nothing is left to improve.

    Attributes:
        results: measures candidates, and stores the measurements.
        comparison: compares a candidate with the incumbent.
        failures: finds failures to learn from.
        writer: requests new candidates.
        emit: takes the events.
        seeds: the seeds; the first is measured before the further ones are compared with it.
        options: the seed of every choice, and the limits.
        incumbent: the best candidate so far.
        stats: statistics of the candidates that were tried.
        curve: one point for each change of the incumbent or of its value.
        iteration: number of the iteration, each of which proposes and tries.
    """

    results: RewardTable
    comparison: Comparison
    failures: FailureFinder
    writer: Writer
    emit: Callable[[events.Event], None]
    seeds: Sequence[Proposal]
    options: OptimizeOptions

    def __post_init__(self) -> None:
        """Begin with the seeds."""
        self._seeds = [self.writer.seed(seed) for seed in self.seeds]
        self.incumbent = self._seeds[0]
        self.population = TextPopulation(self.results)
        self.population.add_incumbent(self.incumbent)
        self.stats: dict[str, CandidateStats] = {}
        self.curve: list[Point] = []
        self.iteration = 0
        self._components = list(self.seeds[0].components)
        self._num_stale = self._num_empty = self._num_cached = 0
        self._has_warned_of_failures = False
        can_stop = self.options.patience is None
        self._flat = FlatRewardWatch(
            self.results.rewards, self.options.perfect, can_stop, len(self._components)
        )
        self._refused: Candidate | None = None  # the latest that was no better than the incumbent

    def run(self) -> str:
        """Run the loop to its end, and return the reason why it ended.

        Raises:
            InputError: the seed cannot be measured, because the program or the metric is at fault,
                or every request to the proposer has failed.
            StoppedError: it was stopped before the seed was measured.
        """
        for seed in self._seeds:
            self.emit(events.Seeded(0, seed.id, dict(seed.components), seed.rationale))
        try:
            self.comparison.deepen(self.incumbent)
        except BudgetSpentError as error:  # a good seed: finding its failures takes many questions
            if not self.comparison.depth:
                if str(error) == INTERRUPTED:
                    raise StoppedError(
                        "the optimization was stopped before the seed instruction was measured; "
                        "required: its first rewards; stop it later"
                    ) from None
                raise InputError(f"{error}, and nothing was measured; required: more") from error
        self.results.require_scored()
        self.results.require_metrics(self.options.limits)
        self._record_incumbent()
        reason = self._improve_incumbent()
        if self.writer.failures and reason != INTERRUPTED:
            failed = f"all {self.writer.failures} requests to the proposer failed"
            message = with_remedy(f"{self.writer.complaint}; {failed}", "a proposer that works")
            raise InputError(
                f"{message}; remove the cause, and continue with resume if a directory was given"
            )
        return reason

    def _improve_incumbent(self) -> str:
        try:
            self._compare_seeds(self._seeds[1:])
            while not (reason := self._stop_reason()):
                self.iteration += 1
                self.results.step = self.iteration
                reason = self._run_iteration()
                if reason:
                    break
            if reason == self._flat.stop_reason:  # more questions would only add cost
                self.emit(events.Notice(self.iteration, f"stopped: {reason}"))
                return reason
            if self.comparison.num_unused and self.results.meter.left:
                self.comparison.use_rest(self.incumbent, self.results.meter.left)
                self._record_incumbent()
        except BudgetSpentError as error:
            return str(error)
        except KeyboardInterrupt:
            return INTERRUPTED
        except InputError as error:  # the best candidate so far is worth more than a traceback
            self.emit(events.Notice(self.iteration, f"stopped: {error}"))
            return str(error)
        return reason

    def _compare_seeds(self, candidates: Sequence[Candidate]) -> None:
        """Compare further seeds with the first one."""
        winner = self.comparison.winner(candidates, self.incumbent, ahead=False)
        for candidate in candidates:
            self.stats[candidate.id] = self._stats_of(candidate)
            self.population.add_incumbent(candidate)
        if winner is not None:
            self._replace_incumbent(winner)

    def _replace_incumbent(self, candidate: Candidate) -> None:
        """Make ``candidate`` the incumbent."""
        self.incumbent = candidate
        self.population.add_incumbent(candidate)
        self.comparison.deepen(candidate)
        self._record_incumbent()

    def test_incumbent(self, items: Sequence[Item]) -> None:
        """Measure the incumbent on questions that had no part in choosing it.

        Raises:
            BudgetSpentError: a limit does not leave room for them.
            InputError: the metric or the program is at fault.
        """
        self.results.measure((self.incumbent, item) for item in items)
        names = [item.question.id for item in items]
        value, _, scored = self.results.mean(self.incumbent, names)
        if scored:
            self._emit_evaluated("test", value, scored)

    def _stop_reason(self) -> str:
        """Return the reason why no further iteration is made; empty if there is none."""
        comparison, meter = self.comparison, self.results.meter
        if meter.stopping():
            return INTERRUPTED
        if self._num_stale >= PATIENCE_AT_PERFECT_SCORE and (reason := self._perfect_reason()):
            return reason
        if self.options.patience is not None and self._num_stale >= self.options.patience:
            return f"no progress in {self._num_stale} iterations"
        if self._num_empty >= MAX_EMPTY_ITERATIONS:
            complaint = self.writer.complaint
            cause = f", the last time because {complaint}" if complaint else ""
            return f"no proposal was accepted in {MAX_EMPTY_ITERATIONS} iterations in a row{cause}"
        if reason := self._flat.stop_reason:
            return reason
        if self._num_cached >= MAX_CACHED_ITERATIONS:
            return (
                f"the proposer repeated itself {MAX_CACHED_ITERATIONS} times, and all its texts "
                "were measured"
            )
        if meter.left <= min(comparison.num_unused, _MAX_RESERVE * meter.limit):
            return "the budget is spent but for the final measurement"
        return ""

    def _perfect_reason(self) -> str:
        """Return a text on the incumbent's perfect validation score; empty if it is not perfect."""
        comparison = self.comparison
        num_failed = comparison.unscored(self.incumbent)
        num_scored = comparison.depth - num_failed
        if not comparison.is_done(self.incumbent) or not num_scored:
            return ""
        return (
            RIGHT_WHERE_SCORED.format(scored=num_scored, failed=num_failed)
            if num_failed
            else PERFECT
        )

    def _run_iteration(self) -> str:
        """Run one iteration; return the reason if it was the last one, and else an empty text."""
        rng = random.Random(f"{self.options.seed}/{self.iteration}")
        spent_before = self.results.meter.spent
        parent = self.population.choose_parent(self.incumbent, self._num_stale, rng)
        num_rewards = self.results.rewards.count
        focus_items = self.failures.find(parent, self._num_stale, rng)
        if not focus_items and parent is not self.incumbent:
            parent = self.incumbent
            focus_items = self.failures.find(parent, self._num_stale, rng)
        if not focus_items:
            return self._perfect_reason() or FAILS_NOTHING
        new_candidates = self._request_candidates(parent, focus_items, rng)
        self._num_empty = 0 if new_candidates else self._num_empty + 1
        improved_candidates = self.comparison.improving(new_candidates, parent, focus_items)
        if new_candidates:
            self.population.record_children(parent, improved_candidates)
        winner = self.comparison.winner(
            improved_candidates, self.incumbent, ahead=parent is self.incumbent
        )
        names = [item.question.id for item in focus_items]
        for child in new_candidates:
            lead = self.results.lead(child, parent, names)
            self.population.add(child, has_tied=abs(lead.value) < 1e-9 and lead.stderr < math.inf)
            self.failures.record_items(child, focus_items)
            self._record_verification(child, child is winner, focus_items)
        new_trajectories = self.failures.trajectories(new_candidates)
        compared_trajectories = [*self.failures.trajectories([parent]), *new_trajectories]
        # the rollouts of the first parent are not in the log yet
        logged = compared_trajectories if self.iteration == 1 else new_trajectories
        if excerpts := excerpts_of(logged):
            self.emit(events.RolloutSamples(self.iteration, excerpts))
        for difference in differences_of(self.iteration, compared_trajectories):
            self.emit(difference)
        self._refused = None if winner else next(reversed(new_candidates), self._refused)
        self._num_stale = 0 if winner else self._num_stale + 1
        self._num_cached = 0 if self.results.meter.spent > spent_before else self._num_cached + 1
        # without progress, chance becomes a likelier cause
        self.results.sure = SURE + 2 * self._num_stale
        self.emit(
            events.Evolved(
                self.iteration,
                1,
                (winner.id,) if winner else (),
                ((winner or self.incumbent).id,),
                self.results.meter.spent - spent_before,
                "" if new_candidates else "no proposal was accepted",
            )
        )
        self._warn_of_failures()
        new_rewards = self.results.rewards.count - num_rewards if new_candidates else 0
        if warning := self._flat.observe(self.iteration, new_rewards):
            self.emit(events.Notice(self.iteration, warning))
        if winner:
            self._replace_incumbent(winner)
        return ""

    def _request_candidates(
        self, parent: Candidate, focus: Sequence[Item], rng: random.Random
    ) -> list[Candidate]:
        """Return new candidates for one component.

        Each component has its turn, in a new order every time.
        """
        turn, index = divmod(self.iteration, len(self._components))
        order = random.Random(f"components/{self.options.seed}/{turn}")
        component = order.sample(self._components, len(self._components))[index]
        failed_trajectories = [self.results.trajectory(parent, item, component) for item in focus]
        if self._refused is not None:
            failed_trajectories += self.failures.repeated_failures(self._refused, focus, component)
        predecessors = [
            self.stats[name].candidate for name in parent.parents[:1] if name in self.stats
        ]
        request = ProposalRequest(
            self.options.proposals,
            [self._stats_of(parent, detailed=True)],
            failed_trajectories,
            tuple(self.stats.values()),
            rng,
            self.iteration,
            component=component,
            successes=self.failures.successes(focus, component),
            corpus=self.failures.corpus([*predecessors, parent]),
        )
        return self.writer.write(request, [item.guarded for item in focus])

    def _record_verification(self, child: Candidate, accepted: bool, focus: Sequence[Item]) -> None:
        """Report the result of the verification of ``child`` to the log and the proposer."""
        reasons = [] if accepted else [self._describe_comparison(child)]
        focus_names = [item.question.id for item in focus]
        if num_missing := self.results.unscored(child, focus_names):
            reasons.append(
                f"the program failed at {num_missing} of {len(focus_names)} of its questions"
            )
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
        self.writer.give_feedback(result)
        self.emit(events.Verified.of(result, self.iteration, 1, parent=False))

    def _describe_comparison(self, child: Candidate) -> str:
        """Return why ``child`` did not win, by the questions that it shares with the incumbent."""
        rewards, best_rewards = self.results.means(child), self.results.means(self.incumbent)
        names = rewards.keys() & best_rewards.keys()
        if broken := self.comparison.broken_limits(child, self.incumbent, sorted(names)):
            return self._describe_limit(broken[0], child)
        if not names:
            return f"no better than {self.incumbent.id}"
        mean, best_mean = mean_of(rewards, names), mean_of(best_rewards, names)
        return (
            f"no better than {self.incumbent.id}: {mean:.3f} against {best_mean:.3f} on the "
            f"{len(names)} questions of both"
        )

    def _describe_limit(self, metric: str, child: Candidate) -> str:
        values, incumbent_values = (
            self.results.metric_means(candidate, metric) for candidate in (child, self.incumbent)
        )
        shared = sorted(values.keys() & incumbent_values.keys())
        return (
            f"{metric} is shown to exceed its limit of {self.options.limits[metric]:g}: "
            f"{mean_of(values, shared):.5g} against {mean_of(incumbent_values, shared):.5g} of "
            f"{self.incumbent.id} on the {len(shared)} questions of both"
        )

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

    def _record_incumbent(self) -> None:
        """Add the value of the incumbent to the curve and to the log."""
        value, _, questions = self.comparison.value(self.incumbent)
        self.stats[self.incumbent.id] = self._stats_of(self.incumbent)
        self.curve.append(Point(self.results.meter.spent, value, self.incumbent.text))
        self._emit_evaluated("validation", value, questions)

    def _emit_evaluated(self, split: str, value: float, questions: int) -> None:
        metrics = {REWARD.name: value, "questions": float(questions)}
        num_rollouts = self.results.meter.spent
        self.emit(
            events.Evaluated(
                self.iteration, split, self.incumbent.id, num_rollouts, metrics, {}, REWARD
            )
        )

    def _warn_of_failures(self) -> None:
        """Warn once, early enough, if many rollouts fail."""
        failures = self.results.failures
        is_early = failures.of < _MIN_ROLLOUTS_FOR_WARNING
        if not self._has_warned_of_failures and failures.are_many and not is_early:
            self._has_warned_of_failures = True
            self.emit(
                events.Notice(self.iteration, f"of the rollouts until now {warning_of(failures)}")
            )
