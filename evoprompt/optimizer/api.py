"""``evoprompt.optimize``: the instruction of a model that is not trained, in one call."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from inspect import signature
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar, cast

from pydantic import JsonValue

from evoprompt.lm.budget import SPENDING_FILE, SpendTracker
from evoprompt.lm.client import GivenLm
from evoprompt.log.evaluation import Score
from evoprompt.log.eventlog import EventLog
from evoprompt.optimizer.data import Item, items_of, split
from evoprompt.optimizer.folder import EVENTS, begin, digest_of, held, is_begun
from evoprompt.optimizer.gepa import AdapterProposer, Batches, GepaAdapter, is_adapter
from evoprompt.optimizer.journal import JOURNAL
from evoprompt.optimizer.options import OptimizeOptions
from evoprompt.optimizer.outcome import INTERRUPTED, LM_SPENT
from evoprompt.optimizer.problem import Problem, require_budget, solve
from evoprompt.optimizer.progress import shown
from evoprompt.optimizer.result import OptimizationResult, best_of
from evoprompt.optimizer.runner import Metric, Program, Rollouts, Runner
from evoprompt.optimizer.writer import built
from evoprompt.roles import Proposer
from evoprompt.screening import usable_seeds
from evoprompt.support.errors import InputError, warn
from evoprompt.types import INSTRUCTION, Proposal, Question

InstructionT = TypeVar("InstructionT", str, Mapping[str, str])
ExampleT = TypeVar("ExampleT")
OutputT = TypeVar("OutputT")

_FEW = 20  # validation questions


def optimize(
    seed_instruction: InstructionT | Sequence[InstructionT | Proposal],
    trainset: Sequence[ExampleT],
    metric: Callable[[ExampleT, OutputT], float | Score | Awaitable[float | Score]] | None = None,
    *,
    program: Callable[[InstructionT, ExampleT], OutputT | Awaitable[OutputT]] | GepaAdapter | None,
    valset: Sequence[ExampleT] | None = None,
    testset: Sequence[ExampleT] | None = None,
    proposer: str | Proposer = "reflection",
    lm: GivenLm | None = None,
    budget: int = 1000,
    directory: str | Path | None = None,
    options: OptimizeOptions | None = None,
) -> OptimizationResult:
    """Improves the instruction of a program whose model stays as it is.

    A proposer reads failures on the training set and writes a new instruction; that is tried where
    its parent failed, and if it is better there, compared with the best one on the validation set.
    No rollout is made twice, and none that is not needed to tell two instructions apart. It ends
    when nothing is left to learn from, after ``patience`` iterations without progress, or ten at a
    perfect score, or, without a ``patience``, ten in which every reward is the lowest, when a limit
    is reached, and at Ctrl-C; what was found until then is returned.

    Args:
        seed_instruction: where to start: a text, or a text for each component of the program; or a
            list of several, of which the first is measured and the others compared with it.
        trainset: examples to learn from: mappings, texts, or any objects of yours.
        metric: ``metric(example, output)`` returns a number, or with feedback a ``Score``, a pair
            ``(number, feedback)`` or a ``dspy.Prediction(score=..., feedback=...)``; higher is
            better. It may be a coroutine function, as may ``program``.
        program: ``program(instruction, example)`` returns an output; it is given a mapping where
            ``seed_instruction`` is one. Several calls are made at a time, in threads, and each sees
            the context variables of the caller, such as ``dspy.context``. Or, without a metric, a
            ``GEPAAdapter`` as GEPA takes it: what it makes of its trajectories is what a proposer
            reads, and its ``propose_new_texts`` is the proposer where neither ``lm`` nor another
            one is given.
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
        directory: new folder for everything that happens, from which it can be resumed; one
            optimization at a time may write it.
        options: what is seldom set, such as the seed, and whether to resume.

    Returns:
        The best instruction and what it is worth, all candidates, the curve, what failed and what
        it cost; with several seeds the best of them, all in ``runs``, and their ``spread``.

    Raises:
        InputError: an argument cannot be used, the seed instruction cannot be measured, or the
            proposer has failed whenever it was asked.
    """
    chosen = OptimizeOptions() if options is None else options
    if not isinstance(chosen, OptimizeOptions):
        raise InputError(
            f"options is {chosen!r:.100}; required: OptimizeOptions(...); write "
            "options=OptimizeOptions(seed=1)"
        )
    if chosen.resume and directory is None:
        raise InputError("resume is given without a directory; required: the one to go on with")
    seeds, as_text = _seeds_of(seed_instruction, chosen.required)
    rollouts: Rollouts
    if is_adapter(program):
        if metric is not None:
            raise InputError(
                "a metric is given beside an adapter; required: one or the other, as an adapter "
                "evaluates by itself; drop the metric"
            )
        if proposer == "reflection" and lm is None and hasattr(program, "propose_new_texts"):
            proposer = AdapterProposer(program.propose_new_texts)
        rollouts = Batches(program, chosen.perfect)
    else:
        for name, given, wanted in (
            ("program", program, "(instruction, example)"),
            ("metric", metric, "(example, output)"),
        ):
            _require_function(name, given, wanted)
        rollouts = Runner(cast(Program, program), cast(Metric, metric), as_text, chosen)
    train: list[Item]
    validation: list[Item]
    train, validation = _sets(trainset, valset, chosen.seed)
    test = [] if testset is None else items_of(testset, "testset")
    _warn_of_overlap("test", test, [*train, *validation], "trainset or the valset")
    problem = Problem(seeds, train, validation, rollouts, test)
    require_budget(budget, len(validation), len(test))
    root = None if directory is None else Path(directory)
    spending = SpendTracker(None if root is None else root / SPENDING_FILE)

    def ask() -> Proposer:
        return built(proposer, lm, root, spending)

    with nullcontext() if root is None else held(root, chosen.resume):
        found = _optimize_all(problem, ask, budget, chosen, root)
    if chosen.progress:
        print(*found.facts, *_way_on(found, root), sep="\n", file=sys.stderr, flush=True)
    return found


def _way_on(found: OptimizationResult, root: Path | None) -> list[str]:
    """How an optimization that was interrupted goes on, in a line; none where it was not."""
    last = found.runs[-1] if found.runs else found
    if last.stopped != INTERRUPTED:
        return []
    if root is None:
        return ["nothing was kept to go on from: that takes directory=FOLDER from the beginning"]
    return [f"go on with the same call and options=OptimizeOptions(resume=True), in {root}"]


def _optimize_all(
    problem: Problem,
    ask: Callable[[], Proposer],
    budget: int,
    options: OptimizeOptions,
    root: Path | None,
) -> OptimizationResult:
    """The best of ``options.seeds`` optimizations, each with a budget of its own.

    Args:
        problem: what is optimized.
        ask: the proposer; one that keeps something begins each time as it was given.
        budget: most rollouts of each.
        options: the seeds, and the limits; ``seconds`` of all together.
        root: folder for everything that happens; with several seeds, one in it for each.
    """
    proposer = ask()
    begun = proposer.state_dict()
    if root is not None:
        begin(root, _settings(problem, proposer, budget, options), options.resume)
    ends = None if options.seconds is None else monotonic() + options.seconds
    runs: list[OptimizationResult] = []
    for seed in range(options.seed, options.seed + options.seeds):
        left = None if ends is None else max(ends - monotonic(), 0.0)
        if runs:
            if left == 0 or runs[-1].stopped in (INTERRUPTED, LM_SPENT):
                break
            proposer = ask()
            proposer.load_state_dict(begun)
        one = options.model_copy(update={"seed": seed, "seeds": 1, "seconds": left})
        folder = root if root is None or options.seeds == 1 else root / f"seed-{seed}"
        if folder is not None and folder is not root:
            settings = _settings(problem, proposer, budget, one)
            begin(folder, settings, options.resume and is_begun(folder))
        log = EventLog(None if folder is None else folder / EVENTS)
        journal = None if folder is None else folder / JOURNAL
        with shown(log, options.progress):
            runs.append(solve(problem, proposer, budget, one, log, journal))
        if folder is not None:
            runs[-1].save(folder)
    if options.seeds == 1:
        return runs[0]
    best = best_of(runs)
    if root is not None:
        best.save(root)
    return best


def _settings(
    problem: Problem, proposer: Proposer, budget: int, options: OptimizeOptions
) -> Mapping[str, JsonValue]:
    """What has to be the same on a resume, and what is asked for."""
    chosen: dict[str, JsonValue] = options.model_dump(mode="json", exclude={"resume", "progress"})
    return {
        "seed_instruction": [dict(seed.components) for seed in problem.seeds],
        "trainset": digest_of(problem.train),
        "valset": digest_of(problem.validation),
        "testset": digest_of(problem.test) if problem.test else None,
        "proposer": proposer.name,
        "budget": budget,
        **chosen,
    }


def _seeds_of(given: Any, required: Sequence[str]) -> tuple[list[Proposal], bool]:
    """The seed instructions, and whether a program takes them as plain texts."""
    several = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    seeds = usable_seeds(several, len(several), required)
    names = set(seeds[0].components)
    for seed in seeds:
        if set(seed.components) != names:
            raise InputError(
                f"a seed instruction has the components {sorted(seed.components)}; required: those "
                f"of the first, {sorted(names)}"
            )
    return seeds, not isinstance(several[0], Mapping) and names == {INSTRUCTION}


def _require_function(name: str, given: object, wanted: str) -> None:
    """Makes sure that ``given`` can be called with two arguments, as far as it tells."""
    if not callable(given) or _is_of_dspy(given):
        other = (
            "; a model behind a server is one as Endpoint(...), and a task as TaskAgent(task, "
            "Endpoint(...)) of evoprompt.optimizer.endpoint; a GEPAAdapter, with its methods "
            "evaluate and make_reflective_dataset, takes no metric; for a program of DSPy's write "
            "evoprompt.CoEvolve(metric, budget=...).compile(program, trainset=...)"
        )
        raise InputError(
            f"{name} is {given!r:.200}; required: a function of two arguments"
            f"{other if name == 'program' else ''}"
        )
    try:
        found = signature(given)
    except (TypeError, ValueError):  # some written in C do not tell
        return
    try:
        found.bind(None, None)
    except TypeError:
        raise InputError(f"{name} takes {found}; required: {name}{wanted}") from None


def _is_of_dspy(program: object) -> bool:
    """Whether it is a module of DSPy's, which takes no instruction; DSPy is not imported here."""
    dspy = sys.modules.get("dspy")
    return dspy is not None and isinstance(program, dspy.Module)


def _sets(
    trainset: Sequence[Any], valset: Sequence[Any] | None, seed: int
) -> tuple[list[Item], list[Item]]:
    learn_from = items_of(trainset, "trainset")
    if valset is not None:
        choose_by = items_of(valset, "valset")
        _warn_of_overlap("validation", choose_by, learn_from, "trainset")
        return learn_from, choose_by
    learn, choose = split(trainset, seed)
    if len(choose) < _FEW:
        warn(
            f"there is no valset, so {len(choose)} of the {len(trainset)} training examples are "
            f"held back to choose by; so few tell close instructions apart by chance; {_FEW} or "
            "more are better",
            3,
        )
    return items_of(learn, "trainset"), items_of(choose, "valset")


def _warn_of_overlap(name: str, asked: Sequence[Item], known: Sequence[Item], where: str) -> None:
    """Says so where an instruction is measured by examples that taught or chose it."""
    read = {_content_of(item.example) for item in known}
    both = sum(_content_of(item.example) in read for item in asked)
    if both:
        warn(
            f"{both} of the {len(asked)} {name} examples are in the {where}, too; required: "
            "others, as what was learnt by heart looks good there; give others, or none",
            4,
        )


def _content_of(example: object) -> str:
    """What two examples have in common if they are the same; of questions, whatever their ids."""
    return repr(replace(example, id="") if isinstance(example, Question) else example)
