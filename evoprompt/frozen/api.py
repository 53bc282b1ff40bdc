"""``evoprompt.optimize``: the instruction of a model that is not trained, in one call."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import JsonValue

from evoprompt.engine.seats import require_role
from evoprompt.engine.seeds import usable_seeds
from evoprompt.errors import EvopromptWarning, InputError
from evoprompt.evaluation import Score
from evoprompt.events import EventLog
from evoprompt.frozen.data import ExampleT, Item, items_of, split
from evoprompt.frozen.evaluator import Evaluator
from evoprompt.frozen.folder import EVENTS, begin, digest_of, journal_of, write_files
from evoprompt.frozen.journal import Journal
from evoprompt.frozen.judge import LEAST, Judge
from evoprompt.frozen.lessons import Lessons
from evoprompt.frozen.loop import Loop
from evoprompt.frozen.progress import shown
from evoprompt.frozen.result import OptimizationResult
from evoprompt.frozen.runner import Meter, OutputT, Runner
from evoprompt.frozen.writing import Writer
from evoprompt.interfaces import Proposer
from evoprompt.lm.budget import SPENDING_FILE, SpendTracker
from evoprompt.plugins import build
from evoprompt.plugins.component import BuildContext
from evoprompt.proposers.delegation import name_of
from evoprompt.types import Candidate

InstructionT = TypeVar("InstructionT", str, Mapping[str, str])

_SHOWN = 3  # failures that the proposer sees
_FEW = 20  # validation questions
_MAX_TOKENS = 1024  # of an instruction


def optimize(
    seed_instruction: InstructionT,
    trainset: Sequence[ExampleT],
    metric: Callable[[ExampleT, OutputT], float | Score | Awaitable[float | Score]],
    *,
    program: Callable[[InstructionT, ExampleT], OutputT | Awaitable[OutputT]],
    valset: Sequence[ExampleT] | None = None,
    proposer: str | Proposer = "reflection",
    lm: str | Mapping[str, JsonValue] | None = None,
    budget: int = 1000,
    seconds: float | None = None,
    seed: int = 0,
    proposals: int = 1,
    patience: int = 50,
    perfect: float = 1.0,
    max_concurrency: int = 8,
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
        metric: ``metric(example, output)`` returns a number, or a ``Score`` with feedback; higher
            is better. It may be a coroutine function, as may ``program``.
        program: ``program(instruction, example)`` returns an output; it is given a mapping where
            ``seed_instruction`` is one. Several calls are made at a time, in threads.
        valset: examples to choose by; by default half of ``trainset``.
        proposer: the name of an installed one, or an object with its method.
        lm: the language model of a proposer that is named, as ``"openai/gpt-5-mini"`` or with the
            settings of ``evoprompt.lm.LmSettings``, a budget in calls, tokens and USD among them.
        budget: most rollouts, validation and repeated attempts included.
        seconds: after which no more rollouts are begun.
        seed: of every choice.
        proposals: instructions asked for in an iteration.
        patience: iterations without a new incumbent after which it ends.
        perfect: the greatest reward there is; anything less is a failure to learn from.
        max_concurrency: rollouts at a time; 1 makes them in this thread.
        directory: new folder for everything that happens, from which it can be resumed.
        resume: folder of an earlier call to go on with, given the same arguments; the limits may
            differ.
        progress: whether to show a bar; by default in a terminal.

    Returns:
        The best instruction, all candidates, and the curve.

    Raises:
        InputError: an argument cannot be used, or the seed instruction cannot be measured.
    """
    _require(budget=budget, proposals=proposals, patience=patience, max_concurrency=max_concurrency)
    for name, given in (("program", program), ("metric", metric)):
        if not callable(given):
            raise InputError(f"{name} is {given!r}; required: a function of two arguments")
    (first,) = usable_seeds([seed_instruction], 1, ())
    train, validation = _sets(trainset, valset, seed)
    least = min(len(validation), LEAST) + 2
    if budget < least:
        raise InputError(
            f"budget is {budget} rollouts; required: at least {least}, for the seed instruction on "
            f"{least - 2} validation questions, a failure of it and one candidate"
        )
    if directory is not None and resume is not None:
        raise InputError("both directory and resume are given; required: at most one; drop one")
    given_root = directory if resume is None else resume
    root = None if given_root is None else Path(given_root)
    asked = _built(proposer, lm, root)
    if root is not None:
        settings: dict[str, JsonValue] = {
            "seed_instruction": dict(first.components),
            "trainset": digest_of(train),
            "valset": digest_of(validation),
            "proposer": name_of(asked),
            "budget": budget,
            "seconds": seconds,
            "seed": seed,
            "proposals": proposals,
            "patience": patience,
            "perfect": perfect,
        }
        begin(root, settings, resume is not None)

    def write(candidate: Candidate) -> InstructionT:
        if isinstance(seed_instruction, str):
            return candidate.text
        return dict(candidate.components)

    log = EventLog(None if root is None else root / EVENTS)
    journal = Journal(None if root is None else journal_of(root))
    meter = Meter(budget)
    runner = Runner(program, metric, write, meter, max_concurrency)
    evaluator = Evaluator(runner, meter, journal, seconds)
    loop = Loop(
        evaluator,
        Writer(asked, journal, log.append, _MAX_TOKENS),
        Judge(evaluator, validation, perfect, seed),
        Lessons(evaluator, train, perfect, _SHOWN),
        log.append,
        first.components,
        seed,
        proposals,
        patience,
    )
    try:
        with shown(log, budget, lambda: meter.spent, progress):
            stopped = loop.run()
    finally:
        runner.close()
    result = loop.result(stopped, log)
    if root is not None:
        write_files(result, root)
    return result


def _sets(
    trainset: Sequence[ExampleT], valset: Sequence[ExampleT] | None, seed: int
) -> tuple[list[Item[ExampleT]], list[Item[ExampleT]]]:
    if valset is not None:
        return items_of(trainset, "trainset"), items_of(valset, "valset")
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


def _built(
    proposer: str | Proposer, lm: str | Mapping[str, JsonValue] | None, root: Path | None
) -> Proposer:
    if not isinstance(proposer, str):
        if lm is not None:
            raise InputError(
                "lm is given beside a proposer that is an object; required: a proposer's name, or "
                "no lm; build the object with its own language model"
            )
        require_role("proposer", "proposer", proposer)
        return proposer
    settings: dict[str, object] = {"name": proposer}
    if lm is not None:
        settings |= {"lm": lm, "background": False}  # there is no training to go on meanwhile
    elif proposer == "reflection":
        raise InputError(
            "lm is not given; required: the language model that reflects and writes, such as "
            'lm="openai/gpt-5-mini"; or another proposer'
        )
    spending = SpendTracker(None if root is None else root / SPENDING_FILE)
    return build("proposer", settings, BuildContext(directory=root, spending=spending))


def _require(**counts: int) -> None:
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InputError(f"{name} is {count!r}; required: a whole number of at least 1")
