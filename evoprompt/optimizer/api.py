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
from evoprompt.optimizer.callbacks import OptimizeCallback, listener_of, require_callbacks
from evoprompt.optimizer.data import Item, items_of, split
from evoprompt.optimizer.folder import EVENTS, digest_of, is_begun, lock_folder, prepare_folder
from evoprompt.optimizer.gepa import AdapterProposer, Batches, GepaAdapter, is_adapter
from evoprompt.optimizer.journal import JOURNAL
from evoprompt.optimizer.options import OptimizeOptions
from evoprompt.optimizer.outcome import INTERRUPTED, LM_SPENT
from evoprompt.optimizer.problem import Problem, require_budget, solve
from evoprompt.optimizer.progress import show_progress
from evoprompt.optimizer.result import OptimizationResult, best_of
from evoprompt.optimizer.runner import Metric, Program, Rollouts, Runner
from evoprompt.optimizer.writer import built
from evoprompt.roles import Proposer
from evoprompt.screening import usable_seeds
from evoprompt.support.errors import InputError, warn
from evoprompt.support.validation import require_object
from evoprompt.types import INSTRUCTION, Proposal, Question

InstructionT = TypeVar("InstructionT", str, Mapping[str, str])
ExampleT = TypeVar("ExampleT")
OutputT = TypeVar("OutputT")

_MIN_VALIDATION_QUESTIONS = 20  # fewer bring a warning


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
    callbacks: Sequence[OptimizeCallback] = (),
) -> OptimizationResult:
    """Improve the instruction of a program while its model stays frozen.

    A proposer reads failures on the training set and writes a new instruction. The new instruction
    is tried where its parent failed; if it is better there, it is compared with the incumbent on
    the validation set. No rollout is made twice, and no rollout is made that is not needed to
    compare two instructions. The optimization ends when nothing is left to learn from, after
    ``patience`` iterations without progress, or ten at a perfect score, or, without a ``patience``,
    45 iterations for each component in which every reward is the lowest, when a limit is reached,
    when a callback stops it, and at Ctrl-C; the best result until then is returned.

    Args:
        seed_instruction: where to start: a text, or a text for each component of the program; or a
            list of several, of which the first is measured and the further ones are compared with
            it.
        trainset: examples to learn from: mappings, texts, or any objects of yours.
        metric: ``metric(example, output)`` returns a number, or with feedback a ``Score``, a pair
            ``(number, feedback)`` or a ``dspy.Prediction(score=..., feedback=...)``; higher is
            better. It may be a coroutine function, as may ``program``.
        program: ``program(instruction, example)`` returns an output; the instruction is a mapping
            where ``seed_instruction`` is one. Several calls are made at a time, in threads, and
            each sees the context variables of the caller, such as ``dspy.context``. Or, without a
            metric, a ``GEPAAdapter`` as GEPA takes it: the proposer reads the reflective dataset
            that the adapter makes of its trajectories, and its ``propose_new_texts`` is the
            proposer if neither ``lm`` nor another proposer is given.
        valset: examples to choose by; by default half of ``trainset``.
        testset: examples on which only the best candidate is measured, at the end, so that
            ``result.value`` is not flattered by the choice; at most a quarter of ``budget`` is
            reserved for them, and a test set beyond that is cut to its first examples.
        proposer: the name of an installed proposer, or an object with its method.
        lm: the language model of a proposer that is given by name: ``"openai/gpt-5-mini"``, a
            ``dspy.LM``, a function of a prompt that returns a text, or a mapping with one of these
            as ``model`` and further settings of ``evoprompt.lm.LmSettings``, such as a budget in
            calls, tokens and USD. A model that is given by name gets one request before the first
            rollout.
        budget: maximum number of rollouts, validation and repeated attempts included.
        directory: new folder for all records of the optimization, from which it can be resumed;
            one optimization at a time may write it.
        options: settings that are seldom changed, such as the seed, and whether to resume.
        callbacks: observers of the events, which may end the optimization from any thread.

    Returns:
        The best instruction with its value, all candidates, the curve, the failures and the cost;
        with several seeds the best run, all of them in ``runs``, and their ``spread``.

    Raises:
        InputError: an argument cannot be used, the seed instruction cannot be measured, or every
            request to the proposer has failed.
    """
    chosen_options = OptimizeOptions() if options is None else options
    if not isinstance(chosen_options, OptimizeOptions):
        raise InputError(
            f"options is {chosen_options!r:.100}; required: OptimizeOptions(...); write "
            "options=OptimizeOptions(seed=1)"
        )
    if chosen_options.resume and directory is None:
        raise InputError("resume is given without a directory; required: the one to go on with")
    require_callbacks(callbacks)
    seeds, as_text = _seeds_of(seed_instruction, chosen_options.required)
    rollouts: Rollouts
    if is_adapter(program):
        if metric is not None:
            raise InputError(
                "a metric is given beside an adapter; required: one or the other, as an adapter "
                "evaluates by itself; drop the metric"
            )
        write = getattr(program, "propose_new_texts", None)  # None where GEPA's base class has it
        if proposer == "reflection" and lm is None and write is not None:
            proposer = AdapterProposer(write)
        rollouts = Batches(program, chosen_options)
    else:
        for name, function, parameters in (
            ("program", program, "(instruction, example)"),
            ("metric", metric, "(example, output)"),
        ):
            _require_function(name, function, parameters)
        rollouts = Runner(cast(Program, program), cast(Metric, metric), as_text, chosen_options)
    train: list[Item]
    validation: list[Item]
    train, validation = _sets(trainset, valset, chosen_options.seed)
    test = [] if testset is None else items_of(testset, "testset")
    _warn_of_overlap("test", test, [*train, *validation], "trainset or the valset")
    problem = Problem(seeds, train, validation, rollouts, test)
    require_budget(budget, len(validation), len(test))
    root = None if directory is None else Path(directory)
    resume = root is not None and (
        is_begun(root) if chosen_options.resume == "auto" else chosen_options.resume
    )
    chosen_options = chosen_options.model_copy(update={"resume": resume})
    spending = SpendTracker(None if root is None else root / SPENDING_FILE)

    def build_proposer() -> Proposer:
        return built(proposer, lm, root, spending)

    with nullcontext() if root is None else lock_folder(root, resume):
        result = _optimize_all(problem, build_proposer, budget, chosen_options, root, callbacks)
    if chosen_options.progress:
        hints = _resume_hints(result, root)
        print(*result.facts, *hints, sep="\n", file=sys.stderr, flush=True)
    return result


def _resume_hints(result: OptimizationResult, root: Path | None) -> list[str]:
    """Return one line on how to resume an interrupted optimization; none if it ended by itself."""
    last_run = result.runs[-1] if result.runs else result
    if last_run.stopped != INTERRUPTED:
        return []
    if root is None:
        return ["nothing was kept to go on from: that takes directory=FOLDER from the beginning"]
    return [f"go on with the same call and options=OptimizeOptions(resume=True), in {root}"]


def _optimize_all(
    problem: Problem,
    build_proposer: Callable[[], Proposer],
    budget: int,
    options: OptimizeOptions,
    root: Path | None,
    callbacks: Sequence[OptimizeCallback],
) -> OptimizationResult:
    """Return the best of ``options.seeds`` optimizations, each with a budget of its own.

    Args:
        problem: the problem to optimize.
        build_proposer: returns the proposer; a proposer with a state begins each optimization in
            the state in which it was given.
        budget: maximum number of rollouts of each optimization.
        options: the seeds and the limits; ``seconds`` is the limit of all together.
        root: folder for all records; with several seeds it has a folder for each.
        callbacks: observers, any of which may stop.
    """

    def is_stopped() -> bool:
        return any(callback.is_stopped for callback in callbacks)

    listeners = [listener_of(callback) for callback in callbacks]
    proposer = build_proposer()
    initial_state = proposer.state_dict()
    if root is not None:
        prepare_folder(root, _settings(problem, proposer, budget, options), bool(options.resume))
    deadline = None if options.seconds is None else monotonic() + options.seconds
    runs: list[OptimizationResult] = []
    for seed in range(options.seed, options.seed + options.seeds):
        seconds_left = None if deadline is None else max(deadline - monotonic(), 0.0)
        if runs:
            if seconds_left == 0 or runs[-1].stopped in (INTERRUPTED, LM_SPENT):
                break
            proposer = build_proposer()
            proposer.load_state_dict(initial_state)
        seed_options = options.model_copy(
            update={"seed": seed, "seeds": 1, "seconds": seconds_left}
        )
        folder = root if root is None or options.seeds == 1 else root / f"seed-{seed}"
        if folder is not None and folder is not root:
            settings = _settings(problem, proposer, budget, seed_options)
            prepare_folder(folder, settings, bool(options.resume) and is_begun(folder))
        log = EventLog(None if folder is None else folder / EVENTS)
        journal = None if folder is None else folder / JOURNAL
        for listener in listeners:
            log.subscribe(listener)
        with show_progress(log, options.progress):
            runs.append(solve(problem, proposer, budget, seed_options, log, journal, is_stopped))
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
    """Return the settings of the optimization, most of which must be the same on a resume."""
    unset = set() if options.limits else {"limits"}  # which folders from before limits have not
    option_values: dict[str, JsonValue] = options.model_dump(
        mode="json", exclude={"resume", "progress"} | unset
    )
    return {
        "seed_instruction": [dict(seed.components) for seed in problem.seeds],
        "trainset": digest_of(problem.train),
        "valset": digest_of(problem.validation),
        "testset": digest_of(problem.test) if problem.test else None,
        "proposer": proposer.name,
        "budget": budget,
        **option_values,
    }


def _seeds_of(seed_instruction: Any, required: Sequence[str]) -> tuple[list[Proposal], bool]:
    """Return the seed instructions, and whether the program takes them as plain texts."""
    instructions = (
        seed_instruction
        if isinstance(seed_instruction, Sequence) and not isinstance(seed_instruction, str)
        else [seed_instruction]
    )
    seeds = usable_seeds(instructions, len(instructions), required)
    names = set(seeds[0].components)
    for seed in seeds:
        if set(seed.components) != names:
            raise InputError(
                f"a seed instruction has the components {sorted(seed.components)}; required: those "
                f"of the first, {sorted(names)}"
            )
    return seeds, not isinstance(instructions[0], Mapping) and names == {INSTRUCTION}


def _require_function(name: str, function: object, parameters: str) -> None:
    """Require that ``function`` can be called with two arguments, if its signature is readable."""
    require_object(name, function)
    if not callable(function) or _is_of_dspy(function):
        alternatives = (
            "; a model behind a server is one as Endpoint(...), and a task as TaskAgent(task, "
            "Endpoint(...)) of evoprompt.optimizer.endpoint; a GEPAAdapter, with its methods "
            "evaluate and make_reflective_dataset, takes no metric; for a program of DSPy's write "
            "evoprompt.CoEvolve(metric, budget=...).compile(program, trainset=...)"
        )
        raise InputError(
            f"{name} is {function!r:.200}; required: a function of two arguments"
            f"{alternatives if name == 'program' else ''}"
        )
    try:
        function_signature = signature(function)
    except (TypeError, ValueError):  # some functions written in C have no signature
        return
    try:
        function_signature.bind(None, None)
    except TypeError:
        raise InputError(
            f"{name} takes {function_signature}; required: {name}{parameters}"
        ) from None


def _is_of_dspy(program: object) -> bool:
    """Return whether ``program`` is a ``dspy.Module``, which takes no instruction.

    DSPy is not imported here.
    """
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
    learning_examples, choosing_examples = split(trainset, seed)
    if len(choosing_examples) < _MIN_VALIDATION_QUESTIONS:
        warn(
            f"there is no valset, so {len(choosing_examples)} of the {len(trainset)} training "
            "examples are held back to choose by; so few separate similar instructions only by "
            f"chance; {_MIN_VALIDATION_QUESTIONS} or more are better",
            3,
        )
    return items_of(learning_examples, "trainset"), items_of(choosing_examples, "valset")


def _warn_of_overlap(
    name: str, measured_items: Sequence[Item], learning_items: Sequence[Item], learning_name: str
) -> None:
    """Warn if an instruction is measured by examples that taught or chose it."""
    learning_contents = {_content_of(item.example) for item in learning_items}
    num_shared = sum(_content_of(item.example) in learning_contents for item in measured_items)
    if num_shared:
        warn(
            f"{num_shared} of the {len(measured_items)} {name} examples are in the "
            f"{learning_name}, too; required: other examples, as a memorized answer looks good "
            "there; give other examples, or none",
            4,
        )


def _content_of(example: object) -> str:
    """Return a text that equal examples have in common; the ids of questions do not count."""
    return repr(replace(example, id="") if isinstance(example, Question) else example)
