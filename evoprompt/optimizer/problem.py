"""Problem of an optimization, and one optimization of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from evoprompt.lm.budget import Charge
from evoprompt.log.eventlog import EventLog
from evoprompt.log.events import Notice
from evoprompt.optimizer.comparison import LEAST, Comparison
from evoprompt.optimizer.data import Item
from evoprompt.optimizer.failures import FailureFinder
from evoprompt.optimizer.journal import Journal
from evoprompt.optimizer.loop import Loop
from evoprompt.optimizer.options import OptimizeOptions
from evoprompt.optimizer.outcome import INTERRUPTED, BudgetSpentError
from evoprompt.optimizer.result import LimitedMetric, OptimizationResult, corrected
from evoprompt.optimizer.results import RewardTable, mean_of, warning_of
from evoprompt.optimizer.runner import Meter, Rollouts
from evoprompt.optimizer.writer import Writer
from evoprompt.roles import Proposer
from evoprompt.support.errors import InputError
from evoprompt.support.waiting import monitor
from evoprompt.types import Proposal, TaskContext


class Ended(Notice):
    """End of an optimization, with its reason and its cost: a notice, but no warning."""


TESTED = 4
"""At most one rollout in this many is reserved for the test set."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Problem of an optimization: a program with an instruction to improve.

    Attributes:
        seeds: at least one seed; the first is measured before the further ones are compared.
        train: examples to learn from.
        validation: examples to choose by.
        rollouts: makes the rollouts.
        test: examples on which the best candidate is measured at the end.
    """

    seeds: Sequence[Proposal]
    train: Sequence[Item]
    validation: Sequence[Item]
    rollouts: Rollouts
    test: Sequence[Item] = ()


def require_budget(budget: int, validation: int, num_test: int) -> None:
    """Require that ``budget`` rollouts are enough for an iteration.

    Args:
        budget: number of all rollouts.
        validation: number of questions to choose by.
        num_test: number of test questions; at most a quarter of the rollouts is reserved for them.

    Raises:
        InputError: ``budget`` is too small, or no whole number.
    """
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise InputError(f"budget is {budget!r}; required: a whole number of at least 1")
    num_reserved, min_budget = min(num_test, budget // TESTED), min(validation, LEAST) + 2
    if budget - num_reserved < min_budget:
        reserved_note = f", {num_reserved} of them for the test" if num_reserved else ""
        raise InputError(
            f"budget is {budget} rollouts{reserved_note}; required: at least {min_budget}"
            f"{' beside the test' if num_reserved else ''}, for the seed instruction on "
            f"{min_budget - 2} validation questions, a failure of it and one candidate"
        )


def solve(
    problem: Problem,
    proposer: Proposer,
    budget: int,
    options: OptimizeOptions,
    log: EventLog,
    journal: Path | None = None,
    stopping: Callable[[], bool] = lambda: False,
) -> OptimizationResult:
    """Improve the instruction of ``problem``, with one random seed.

    Args:
        problem: the problem to optimize.
        proposer: writes new instructions.
        budget: maximum number of rollouts.
        options: the random seed, the limits, and the rules for a text.
        log: takes the events.
        journal: file of every rollout and reply, which may hold those of an earlier process.
        stopping: returns whether to end with the best so far; called all the time, while
            rollouts are made, too.

    Raises:
        InputError: the first seed cannot be measured, or the proposer has never worked.
        StoppedError: it was stopped before the first seed was measured.
    """
    test = problem.test[: budget // TESTED]
    run_journal = Journal(journal)
    meter = Meter(budget - len(test), stopping)
    results = RewardTable(problem.rollouts, meter, run_journal, options.seconds)
    texts = [item.question.text for item in problem.train]
    setting = _with_limits(problem.rollouts.setting, options)
    writer = Writer(proposer, run_journal, log.append, options, setting, texts)
    perfect, seed = options.perfect, options.seed
    comparison = Comparison(results, problem.validation, perfect, seed, options.limits)
    failures = FailureFinder(results, problem.train, perfect)
    loop = Loop(results, comparison, failures, writer, log.append, problem.seeds, options)
    report = partial(log.report_wait, is_warning=False)
    try:
        with monitor.reporting(report):
            stopped = loop.run()
        if writer.complaint and not writer.passed:
            log.append(
                Notice(
                    loop.iteration,
                    f"no proposal was accepted in {loop.iteration} iterations, the last time "
                    f"because {writer.complaint}; required: an instruction that the rules accept; "
                    "change the proposer or its language model",
                )
            )
        if test and stopped != INTERRUPTED:
            meter.limit += len(test)
            try:
                with monitor.reporting(report):
                    loop.test_incumbent(test)
            except (BudgetSpentError, InputError) as error:  # the result is complete without it
                log.append(Notice(loop.iteration, f"the testset was not evaluated: {error}"))
        best = loop.incumbent
        validation, stderr, num_questions = comparison.value(best)
        value, deviation, num_tested = results.mean(best, [item.question.id for item in test])
        names = comparison.used_names
        if num_tested:
            names = [item.question.id for item in test]
            stderr, num_questions = deviation, num_tested
        else:
            tried_candidates = (
                stats.candidate
                for stats in loop.stats.values()
                if not comparison.broken_limits(stats.candidate, best, names)
            )
            best_rewards = comparison.rewards(best)
            all_rewards = map(comparison.rewards, tried_candidates)
            alternatives = [rewards for rewards in all_rewards if rewards != best_rewards]
            value = corrected(best_rewards, alternatives, seed)
        first_seed = next(iter(loop.stats.values())).candidate
        seed_rewards = comparison.rewards(first_seed)
        shared = sorted(seed_rewards.keys() & comparison.rewards(best).keys())
        result = OptimizationResult(
            best=best,
            value=value,
            stderr=stderr,
            asked=num_questions,
            unscored=len(names) - num_questions,
            candidates=tuple(loop.stats.values()),
            curve=tuple(loop.curve),
            rollouts=meter.spent,
            iterations=loop.iteration,
            proposer_calls=writer.calls,
            stopped=stopped,
            log=log,
            seed=seed,
            validation=validation,
            before=mean_of(seed_rewards, shared),
            after=mean_of(comparison.rewards(best), shared),
            shared=len(shared),
            limited=[
                LimitedMetric.of(
                    name,
                    limit,
                    results.metric_means(first_seed, name),
                    results.metric_means(best, name),
                    shared,
                )
                for name, limit in options.limits.items()
            ],
            tested=num_tested > 0,
            failures=results.failures,
            writer_cost=_cost_of(proposer),
            program_cost=problem.rollouts.cost(),
        )
        if result.failures.are_many:
            log.append(Notice(loop.iteration, f"of all rollouts {warning_of(result.failures)}"))
        log.append(Ended(loop.iteration, "; ".join(result.facts)))
    finally:
        problem.rollouts.close()
    return result


def _with_limits(setting: TaskContext, options: OptimizeOptions) -> TaskContext:
    """Return ``setting`` with the limits in its description of the reward, for the proposer."""
    if not options.limits:
        return setting
    limits = ", ".join(f"{name} {limit:g}" for name, limit in options.limits.items())
    note = f"An instruction is rejected if the mean of a metric exceeds its limit: {limits}."
    return replace(setting, reward=f"{setting.reward}\n{note}".strip())


def _cost_of(proposer: Proposer) -> Charge | None:
    """Return the cost of a proposer's language models; None if it does not report any."""
    try:
        metrics = proposer.metrics()
    except Exception:  # the user's code; the result does not depend on it
        return None
    if "lm/calls" not in metrics:
        return None
    tokens = int(metrics.get("lm/input_tokens", 0)), int(metrics.get("lm/output_tokens", 0))
    return Charge(
        int(metrics["lm/calls"]), *tokens, metrics.get("lm/usd", 0.0), "lm/usd" in metrics
    )
