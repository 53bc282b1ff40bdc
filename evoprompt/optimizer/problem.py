"""What is optimized, and one optimization of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from evoprompt.optimizer.result import OptimizationResult, corrected
from evoprompt.optimizer.results import Results, warning_of
from evoprompt.optimizer.runner import Meter, Rollouts
from evoprompt.optimizer.writer import Writer
from evoprompt.roles import Proposer
from evoprompt.support.errors import InputError
from evoprompt.types import Proposal


class Ended(Notice):
    """How an optimization ended and what it has cost: a notice, but no warning."""


TESTED = 4
"""One in so many rollouts goes into a test at most."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A program whose instruction is to be improved.

    Attributes:
        seeds: where to start, at least one; the first is measured before the others are compared.
        train: examples to learn from.
        validation: examples to choose by.
        rollouts: makes them.
        test: examples that the best is measured on at the end.
    """

    seeds: Sequence[Proposal]
    train: Sequence[Item]
    validation: Sequence[Item]
    rollouts: Rollouts
    test: Sequence[Item] = ()


def require_budget(budget: int, validation: int, tested: int) -> None:
    """Makes sure that ``budget`` rollouts are enough for an iteration.

    Args:
        budget: in all.
        validation: questions to choose by.
        tested: questions of the test; at most a quarter of the rollouts is kept for them.

    Raises:
        InputError: they are not.
    """
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise InputError(f"budget is {budget!r}; required: a whole number of at least 1")
    kept, least = min(tested, budget // TESTED), min(validation, LEAST) + 2
    if budget - kept < least:
        beside = f", {kept} of them for the test" if kept else ""
        raise InputError(
            f"budget is {budget} rollouts{beside}; required: at least {least}"
            f"{' beside the test' if kept else ''}, for the seed instruction on {least - 2} "
            "validation questions, a failure of it and one candidate"
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
    """Improves the instruction of ``problem``, with one seed.

    Args:
        problem: what is optimized.
        proposer: writes new instructions.
        budget: most rollouts.
        options: the seed, the limits, and what a text must hold.
        log: takes the events.
        journal: file of every rollout and answer, which may hold those of an earlier process.
        stopping: asked before rollouts are begun: whether to end with what was found.

    Raises:
        InputError: the first seed cannot be measured, or the proposer has never worked.
    """
    test = problem.test[: budget // TESTED]
    kept = Journal(journal)
    meter = Meter(budget - len(test))
    results = Results(problem.rollouts, meter, kept, options.seconds, stopping)
    texts = [item.question.text for item in problem.train]
    writer = Writer(proposer, kept, log.append, options, problem.rollouts.setting, texts)
    perfect, seed = options.perfect, options.seed
    comparison = Comparison(results, problem.validation, perfect, seed)
    failures = FailureFinder(results, problem.train, perfect)
    loop = Loop(results, comparison, failures, writer, log.append, problem.seeds, options)
    try:
        stopped = loop.run()
        if writer.complaint and not writer.passed:
            log.append(
                Notice(
                    loop.iteration,
                    f"no text of the proposer's could be tried in {loop.iteration} iterations, the "
                    f"last time because {writer.complaint}; required: an instruction that the "
                    "rules let through; change the proposer or its language model",
                )
            )
        if test and stopped != INTERRUPTED:
            meter.limit += len(test)
            try:
                loop.test_incumbent(test)
            except (BudgetSpentError, InputError) as error:  # the result is complete without it
                log.append(Notice(loop.iteration, f"the testset was not asked: {error}"))
        best = loop.incumbent
        validation, stderr, asked = comparison.value(best)
        value, deviation, scored = results.mean(best, [item.question.id for item in test])
        if scored:
            stderr, asked = deviation, scored
        else:
            tried = (stats.candidate for stats in loop.stats.values())
            mine, others = comparison.rewards(best), map(comparison.rewards, tried)
            value = corrected(mine, [one for one in others if one != mine], seed)
        found = OptimizationResult(
            best=best,
            value=value,
            stderr=stderr,
            asked=asked,
            candidates=tuple(loop.stats.values()),
            curve=tuple(loop.curve),
            rollouts=meter.spent,
            iterations=loop.iteration,
            proposer_calls=writer.calls,
            stopped=stopped,
            log=log,
            seed=seed,
            validation=validation,
            tested=scored > 0,
            failures=results.failures,
            writer_cost=_cost_of(proposer),
            program_cost=problem.rollouts.cost(),
        )
        if found.failures.are_many:
            log.append(Notice(loop.iteration, f"of all rollouts {warning_of(found.failures)}"))
        log.append(Ended(loop.iteration, "; ".join(found.facts)))
    finally:
        problem.rollouts.close()
    return found


def _cost_of(proposer: Proposer) -> Charge | None:
    """What a proposer's language models have cost; None where it does not say."""
    try:
        spent = proposer.metrics()
    except Exception:  # the user's code; it has no part in what was found
        return None
    if "lm/calls" not in spent:
        return None
    tokens = int(spent.get("lm/input_tokens", 0)), int(spent.get("lm/output_tokens", 0))
    return Charge(int(spent["lm/calls"]), *tokens, spent.get("lm/usd", 0.0), "lm/usd" in spent)
