"""``evoprompt.optimize``: the instruction of a model that is not trained, in one call."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import TypeVar

from evoprompt.agents.tasks import Task
from evoprompt.errors import EvopromptWarning, InputError
from evoprompt.evaluation import Score
from evoprompt.experiments.pool import fit_texts, read_pool
from evoprompt.lm.budget import SPENDING_FILE, SpendTracker
from evoprompt.lm.given import GivenLm
from evoprompt.optimizer.data import ExampleT, Item, items_of, split, told_apart
from evoprompt.optimizer.gepa import AdapterProposer, GepaAdapter, adapted
from evoprompt.optimizer.outcome import cost_of
from evoprompt.optimizer.problem import Effort, Problem, calling, require_budget
from evoprompt.optimizer.result import OptimizationResult
from evoprompt.optimizer.runner import Meter, OutputT, Rollouts
from evoprompt.optimizer.several import optimize_all
from evoprompt.optimizer.writer import built
from evoprompt.optimizer.writing import setting_of
from evoprompt.roles import Proposer
from evoprompt.seeds import usable_seeds
from evoprompt.types import Candidate, Proposal

InstructionT = TypeVar("InstructionT", str, Mapping[str, str])

_FEW = 20  # validation questions
_MOST_TAKEN = 16  # instructions of another run's pool


def optimize(
    seed_instruction: InstructionT,
    trainset: Sequence[ExampleT],
    metric: Callable[[ExampleT, OutputT], float | Score | Awaitable[float | Score]] | None = None,
    *,
    program: Callable[[InstructionT, ExampleT], OutputT | Awaitable[OutputT]] | None = None,
    adapter: GepaAdapter | None = None,
    valset: Sequence[ExampleT] | None = None,
    testset: Sequence[ExampleT] | None = None,
    proposer: str | Proposer = "reflection",
    lm: GivenLm | None = None,
    budget: int = 1000,
    seconds: float | None = None,
    seed: int = 0,
    proposals: int = 1,
    patience: int | None = None,
    perfect: float = 1.0,
    max_concurrency: int = 8,
    seeds: int = 1,
    required: Sequence[str] = (),
    max_tokens: int = 1024,
    refuse_copies: bool = True,
    seeds_from: str | Path | None = None,
    directory: str | Path | None = None,
    resume: str | Path | None = None,
    progress: bool | None = None,
) -> OptimizationResult:
    """Improves the instruction of a program whose model stays as it is.

    A proposer reads failures on the training set and writes a new instruction; that is tried where
    its parent failed, and if it is better there, races against the best one on the validation set.
    No rollout is made twice, and none that is not needed to tell two instructions apart. It ends at
    a perfect score, when nothing is left to learn from, after ``patience`` iterations without
    progress, when a limit is reached, and at Ctrl-C; what was found until then is returned.

    Args:
        seed_instruction: where to start: a text, or a text for each component of the program.
        trainset: examples to learn from: mappings, texts, or any objects of yours.
        metric: ``metric(example, output)`` returns a number, or with feedback a ``Score``, a pair
            ``(number, feedback)`` or a ``dspy.Prediction(score=..., feedback=...)``; higher is
            better. It may be a coroutine function, as may ``program``.
        program: ``program(instruction, example)`` returns an output; it is given a mapping where
            ``seed_instruction`` is one. Several calls are made at a time, in threads.
        adapter: in place of ``program`` and ``metric``, a ``GEPAAdapter`` as GEPA takes it. What it
            makes of its trajectories is what a proposer reads, and its ``propose_new_texts`` is
            the proposer where neither ``lm`` nor another one is given.
        valset: examples to choose by; by default half of ``trainset``.
        testset: examples that only the best is asked, at the end, so that ``result.value`` is not
            flattered by the choice; at most a quarter of ``budget`` is kept for them, which then
            asks the first ones.
        proposer: the name of an installed one, or an object with its method.
        lm: the language model of a proposer that is named: ``"openai/gpt-5-mini"``, a ``dspy.LM``,
            a function of a prompt that returns a text, or a mapping with one of these as ``model``
            and further settings of ``evoprompt.lm.LmSettings``, such as a budget in calls, tokens
            and USD. What has a name is asked once before the first rollout.
        budget: most rollouts, validation and repeated attempts included.
        seconds: after which no more rollouts are begun.
        seed: of every choice.
        proposals: instructions asked for in an iteration.
        patience: iterations without a new incumbent after which it ends; 0 only measures the seed;
            None for as many as take a third of the budget, and 50 at least.
        perfect: the greatest reward there is; anything less is a failure to learn from.
        max_concurrency: rollouts at a time; 1 makes them in this thread.
        seeds: how often it is done, with ``seed``, ``seed + 1`` and so on, each with the whole
            ``budget``; ``seconds`` and the budget of ``lm`` are those of all together.
        required: texts that every instruction must hold, such as placeholders and tags.
        max_tokens: most tokens of an instruction; a longer one is refused.
        refuse_copies: whether an instruction is refused that copies a question which the proposer
            was shown, or gives away an answer that only one question has.
        seeds_from: a run, trial, checkpoint or ``directory`` of an earlier call whose instructions
            are compared with ``seed_instruction`` in the beginning.
        directory: new folder for everything that happens, from which it can be resumed; one
            optimization at a time may write it.
        resume: folder of an earlier call to go on with, given the same arguments; the limits may
            differ.
        progress: whether to show a bar, and at the end what was found and what it cost, on
            standard error; by default a bar in a terminal, elsewhere a line for each text accepted.

    Returns:
        The best instruction and what it is worth, all candidates, the curve, what failed and what
        it cost; with several seeds the best of them,
        all in ``runs``, and their ``spread``.

    Raises:
        InputError: an argument cannot be used, the seed instruction cannot be measured, or the
            proposer has failed whenever it was asked.
    """
    effort = Effort(
        budget=budget,
        seconds=seconds,
        seed=seed,
        proposals=proposals,
        patience=patience,
        perfect=perfect,
        max_concurrency=max_concurrency,
        max_tokens=max_tokens,
        refuse_copies=refuse_copies,
    )
    if directory is not None and resume is not None:
        raise InputError("both directory and resume are given; required: at most one; drop one")

    rollouts = _rollouts(seed_instruction, program, metric, adapter)
    if adapter is not None and proposer == "reflection" and lm is None:
        proposer = _own_proposer(adapter) or proposer
    if isinstance(required, str):
        raise InputError(f"required is the text {required!r}; required: a list of texts")
    train, validation = _sets(trainset, valset, seed)
    test = _tested(testset, train, validation)
    own: list[Proposal] = usable_seeds([seed_instruction], 1, required)
    if seeds_from is not None:
        own += _taken_over(Path(seeds_from), own[0], required)
    problem = Problem(
        own,
        train,
        validation,
        rollouts,
        required,
        setting_of(program, metric),
        test,
        lambda: cost_of(program),
    )
    kept = len(problem.tested(budget))
    require_budget(budget - kept, len(validation), kept)
    given_root = directory if resume is None else resume
    root = None if given_root is None else Path(given_root)
    spending = SpendTracker(None if root is None else root / SPENDING_FILE)

    def ask() -> Proposer:
        return built(proposer, lm, root, spending)

    return optimize_all(
        problem, ask, effort, seeds, root, resume=resume is not None, progress=progress
    )


def _rollouts(
    seed_instruction: InstructionT,
    program: Callable[[InstructionT, ExampleT], OutputT | Awaitable[OutputT]] | None,
    metric: Callable[[ExampleT, OutputT], float | Score | Awaitable[float | Score]] | None,
    adapter: GepaAdapter | None,
) -> Callable[[Meter, Effort], Rollouts[InstructionT, ExampleT, OutputT]]:
    """What makes the rollouts: the program and its metric, or an adapter."""
    if adapter is not None:
        if program is not None or metric is not None:
            raise InputError(
                "an adapter is given beside a program or a metric; required: one or the other, as "
                "an adapter evaluates by itself; drop program and metric"
            )
        return adapted(adapter)
    if program is None or not callable(program) or _is_of_dspy(program):
        raise InputError(
            f"program is {program!r:.200}; required: a function of two arguments"
            f"{_another_way(program)}"
        )
    if metric is None or not callable(metric):
        raise InputError(f"metric is {metric!r}; required: a function of two arguments")
    _require_two_arguments("program", program, "(instruction, example)")
    _require_two_arguments("metric", metric, "(example, output)")

    def write(candidate: Candidate) -> InstructionT:
        if isinstance(seed_instruction, str):
            return candidate.text
        return dict(candidate.components)

    return calling(program, metric, write)


def _require_two_arguments(name: str, function: Callable[..., object], required: str) -> None:
    """Returns if ``function`` can be called with two arguments, as far as it tells."""
    try:
        found = signature(function)
    except (TypeError, ValueError):  # some written in C do not tell
        return
    try:
        found.bind(None, None)
    except TypeError:
        raise InputError(f"{name} takes {found}; required: {name}{required}") from None


def _another_way(program: object) -> str:
    """How a program that is no function is given."""
    if isinstance(program, str):
        return "; a model behind a server is one as Endpoint(...) of evoprompt.optimizer.endpoint"
    if isinstance(program, Task):
        return (
            "; a task is one as TaskAgent(task, Endpoint(...)) of evoprompt.optimizer.endpoint, "
            "which is also its metric and its questions"
        )
    if _is_of_dspy(program):
        return "; write evoprompt.CoEvolve(metric, budget=...).compile(program, trainset=...)"
    return ""


def _is_of_dspy(program: object) -> bool:
    """Whether it is a module of DSPy's, which takes no instruction; DSPy is not imported here."""
    dspy = sys.modules.get("dspy")
    return dspy is not None and isinstance(program, dspy.Module)


def _own_proposer(adapter: GepaAdapter) -> Proposer | None:
    """The proposer that ``adapter`` brings, if it does."""
    write = getattr(adapter, "propose_new_texts", None)
    return None if write is None else AdapterProposer(write)


def _sets(
    trainset: Sequence[ExampleT], valset: Sequence[ExampleT] | None, seed: int
) -> tuple[list[Item[ExampleT]], list[Item[ExampleT]]]:
    if valset is not None:
        learn_from, choose_by = items_of(trainset, "trainset"), items_of(valset, "valset")
        _warn_of_overlap(learn_from, choose_by)
        return learn_from, choose_by
    items_of(trainset, "trainset")
    learn, choose = split(trainset, seed)
    if len(choose) < _FEW:
        warnings.warn(
            f"there is no valset, so {len(choose)} of the {len(trainset)} training examples are "
            f"held back to choose by; so few tell close instructions apart by chance; {_FEW} or "
            "more are better",
            EvopromptWarning,
            stacklevel=3,
        )
    return items_of(learn, "trainset"), items_of(choose, "valset")


def _tested(
    testset: Sequence[ExampleT] | None,
    train: Sequence[Item[ExampleT]],
    validation: Sequence[Item[ExampleT]],
) -> list[Item[ExampleT]]:
    """The test set, with a warning where its examples are in one of the others."""
    if testset is None:
        return []
    found = items_of(testset, "testset")
    read = {told_apart(item.example) for item in (*train, *validation)}
    both = sum(told_apart(item.example) in read for item in found)
    if both:
        warnings.warn(
            f"{both} of the {len(found)} test examples are in the trainset or the valset, too; "
            "required: others, as the instruction was written or chosen by those",
            EvopromptWarning,
            stacklevel=3,
        )
    return found


def _warn_of_overlap(train: Sequence[Item[ExampleT]], validation: Sequence[Item[ExampleT]]) -> None:
    """Says so where an instruction is chosen by examples that its writer has read."""
    read = {told_apart(item.example) for item in train}
    both = sum(told_apart(item.example) in read for item in validation)
    if both:
        warnings.warn(
            f"{both} of the {len(validation)} validation examples are in the trainset, too; "
            "required: others, as what was learnt by heart looks good there; keep them apart, or "
            "give no valset, and half of the trainset is held back",
            EvopromptWarning,
            stacklevel=4,
        )


def _taken_over(source: Path, own: Proposal, required: Sequence[str]) -> Sequence[Proposal]:
    """What of the pool of another run goes with the seed instruction."""
    pool = [one for one in read_pool(source) if one.components != own.components]
    if not pool:
        return ()
    names = set(own.components)
    fitted = fit_texts(tuple(pool), str(source), [own.text], names, required, _MOST_TAKEN)
    for notice in fitted.notices:
        warnings.warn(notice, EvopromptWarning, stacklevel=3)
    return fitted.seeds
