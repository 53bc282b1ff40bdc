"""What is optimized, and how: the two things from which the loop is built."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from math import inf, isfinite, nan
from pathlib import Path
from typing import Generic

from evoprompt.errors import InputError
from evoprompt.evaluation import Score
from evoprompt.eventlog import EventLog
from evoprompt.events import Notice
from evoprompt.optimizer.data import ExampleT, Item
from evoprompt.optimizer.evaluator import INTERRUPTED, Evaluator, warning_of
from evoprompt.optimizer.journal import Journal
from evoprompt.optimizer.judge import LEAST, Judge
from evoprompt.optimizer.lessons import Lessons
from evoprompt.optimizer.loop import Loop
from evoprompt.optimizer.outcome import BudgetSpentError, Cost, Ended
from evoprompt.optimizer.result import OptimizationResult
from evoprompt.optimizer.runner import Meter, OutputT, Rollouts, Runner, WrittenT
from evoprompt.optimizer.writing import Writer
from evoprompt.roles import Proposer
from evoprompt.types import Candidate, Proposal, Setting

SHOWN = 3
"""Failures that the proposer sees."""

TESTED = 4
"""One in so many rollouts goes into a test at most."""


@dataclass(frozen=True, slots=True)
class Problem(Generic[WrittenT, ExampleT, OutputT]):
    """A program whose instruction is to be improved.

    Attributes:
        seeds: where to start, at least one; the first is measured before the others are compared.
        train: examples to learn from.
        validation: examples to choose by.
        rollouts: what makes them, given a counter of further attempts and the limits.
        required: texts that every instruction must hold.
        setting: what stands around an instruction, for the proposer to read.
        test: examples that the best is measured on at the end.
        cost: what the program's language models have cost; None where nobody knows.
    """

    seeds: Sequence[Proposal]
    train: Sequence[Item[ExampleT]]
    validation: Sequence[Item[ExampleT]]
    rollouts: Callable[[Meter, Effort], Rollouts[WrittenT, ExampleT, OutputT]]
    required: Sequence[str] = ()
    setting: Setting = field(default_factory=lambda: Setting(trained=False))
    test: Sequence[Item[ExampleT]] = ()
    cost: Callable[[], Cost | None] = lambda: None

    def tested(self, budget: int) -> Sequence[Item[ExampleT]]:
        """The test examples that a quarter of ``budget`` rollouts is enough for, the first ones."""
        return self.test[: budget // TESTED]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How an optimization is made; see :func:`~evoprompt.optimize`.

    Attributes:
        budget: most rollouts.
        seconds: after which no more rollouts are begun; None for no limit.
        seed: of every choice.
        proposals: instructions asked for in an iteration.
        patience: iterations without a new incumbent after which it ends; 0 only measures the seeds;
            None for as many as take a third of the budget, and 50 at least.
        perfect: the greatest reward there is.
        max_concurrency: rollouts at a time.
        max_tokens: most tokens of an instruction.
        refuse_copies: whether instructions that copy a question, or give away an answer, are
            refused.
    """

    budget: int = 1000
    seconds: float | None = None
    seed: int = 0
    proposals: int = 1
    patience: int | None = None
    perfect: float = 1.0
    max_concurrency: int = 8
    max_tokens: int = 1024
    refuse_copies: bool = True

    def __post_init__(self) -> None:
        for name in ("budget", "proposals", "max_concurrency", "max_tokens"):
            require_count(name, getattr(self, name))
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise InputError(f"seed is {self.seed!r}; required: a whole number")
        if self.patience is not None and (self.patience != 0 or isinstance(self.patience, bool)):
            require_count("patience", self.patience)
        require_number("perfect", self.perfect)
        if self.seconds is not None:
            require_number("seconds", self.seconds, least=0)


def calling(
    program: Callable[[WrittenT, ExampleT], OutputT | Awaitable[OutputT]],
    metric: Callable[[ExampleT, OutputT], float | Score | Awaitable[float | Score]],
    write: Callable[[Candidate], WrittenT],
) -> Callable[[Meter, Effort], Rollouts[WrittenT, ExampleT, OutputT]]:
    """Rollouts of a function.

    Args:
        program: ``program(instruction, example)`` returns an output, or a coroutine.
        metric: ``metric(example, output)`` says how good it is, or a coroutine does.
        write: what the program takes of a candidate.
    """

    def runner(meter: Meter, effort: Effort) -> Rollouts[WrittenT, ExampleT, OutputT]:
        return Runner(program, metric, write, meter, effort.max_concurrency, perfect=effort.perfect)

    return runner


def require_count(name: str, count: object) -> None:
    """Nothing, unless ``count`` is no whole number of at least 1.

    Raises:
        InputError: it is not.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InputError(f"{name} is {count!r}; required: a whole number of at least 1")


def require_number(name: str, number: object, least: float = -inf) -> None:
    """Nothing, unless ``number`` is none, not finite, or less than ``least``.

    Raises:
        InputError: it is so.
    """
    given = nan if isinstance(number, bool) or not isinstance(number, int | float) else number
    if isfinite(given) and given >= least:
        return
    floor = "" if least == -inf else f" of at least {least:g}"
    raise InputError(f"{name} is {number!r}; required: a finite number{floor}")


def require_budget(budget: int, validation: int, kept: int = 0) -> None:
    """Nothing, unless ``budget`` is too small for an iteration.

    Args:
        budget: rollouts.
        validation: questions.
        kept: rollouts that were taken off before, for a test.

    Raises:
        InputError: it is.
    """
    least = min(validation, LEAST) + 2
    if budget < least:
        tested = f", {kept} of them for the test" if kept else ""
        raise InputError(
            f"budget is {budget + kept} rollouts{tested}; required: at least {least}"
            f"{' beside the test' if kept else ''}, for the seed instruction on {least - 2} "
            "validation questions, a failure of it and one candidate"
        )


def solve(
    problem: Problem[WrittenT, ExampleT, OutputT],
    proposer: Proposer,
    effort: Effort,
    log: EventLog,
    journal: Path | None = None,
    *,
    shown: Callable[[Meter], AbstractContextManager[None]] = lambda meter: nullcontext(),
    stopping: Callable[[], bool] = lambda: False,
) -> OptimizationResult:
    """Improves the instruction of ``problem``.

    Args:
        problem: what is optimized.
        proposer: writes new instructions.
        effort: the limits.
        log: takes the events.
        journal: file of every rollout and answer, which may hold those of an earlier process.
        shown: shows what goes on while it is entered.
        stopping: asked before rollouts are begun: whether to end with what was found.

    Raises:
        InputError: the first seed cannot be measured, or the proposer has never worked.
    """
    test = problem.tested(effort.budget)
    require_budget(effort.budget - len(test), len(problem.validation), len(test))
    kept = Journal(journal)
    meter = Meter(effort.budget - len(test))
    runner = problem.rollouts(meter, effort)
    evaluator = Evaluator(runner, meter, kept, effort.seconds, stopping)
    writer = Writer(
        proposer,
        kept,
        log.append,
        effort.max_tokens,
        problem.required,
        effort.refuse_copies,
        problem.setting,
    )
    loop = Loop(
        evaluator,
        writer,
        Judge(evaluator, problem.validation, problem.train, effort.perfect, effort.seed),
        Lessons(evaluator, problem.train, effort.perfect, SHOWN),
        log.append,
        problem.seeds,
        effort.seed,
        effort.proposals,
        effort.patience,
    )
    log.hold()
    try:
        with shown(meter):
            stopped = loop.run()
            if writer.asked and not writer.passed and writer.complaint:
                log.append(
                    Notice(
                        loop.iteration,
                        f"no text of the proposer's could be tried in {writer.asked} iterations, "
                        f"the last time because {writer.complaint}; required: an instruction that "
                        "the rules let through; change the proposer or its language model",
                    )
                )
            if test and stopped != INTERRUPTED:
                meter.limit += len(test)
                try:
                    loop.test(test)
                except (BudgetSpentError, InputError) as error:  # what was found is still there
                    log.append(Notice(loop.iteration, f"the testset was not asked: {error}"))
            found = replace(
                loop.result(stopped, log, test),
                writer_cost=_cost_of(proposer),
                program_cost=problem.cost(),
            )
            if found.failures.are_many:
                log.append(Notice(loop.iteration, f"of all rollouts {warning_of(found.failures)}"))
            log.append(Ended(loop.iteration, "; ".join(found.facts())))
    finally:
        runner.close()
        kept.close()
        log.close()
    return found


def _cost_of(proposer: Proposer) -> Cost | None:
    """What a proposer's language models have cost; None where it does not say."""
    try:
        spent = proposer.metrics()
    except Exception:  # the user's code; it has no part in what was found
        return None
    if "lm/calls" not in spent:
        return None
    tokens = int(spent.get("lm/input_tokens", 0)), int(spent.get("lm/output_tokens", 0))
    return Cost(int(spent["lm/calls"]), *tokens, spent.get("lm/usd"))
