"""The same optimization with several seeds, and its files."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from time import monotonic

from pydantic import JsonValue

from evoprompt.eventlog import EventLog
from evoprompt.optimizer.data import ExampleT
from evoprompt.optimizer.evaluator import INTERRUPTED
from evoprompt.optimizer.folder import EVENTS, begin, digest_of, held, is_begun, journal_of
from evoprompt.optimizer.outcome import LM_SPENT
from evoprompt.optimizer.problem import Effort, Problem, require_count, solve
from evoprompt.optimizer.progress import shown, tell_end
from evoprompt.optimizer.result import OptimizationResult
from evoprompt.optimizer.runner import OutputT, WrittenT
from evoprompt.roles import Proposer


def optimize_all(
    problem: Problem[WrittenT, ExampleT, OutputT],
    ask: Callable[[], Proposer],
    effort: Effort,
    seeds: int,
    root: Path | None,
    *,
    resume: bool,
    progress: bool | None,
) -> OptimizationResult:
    """The best of ``seeds`` optimizations, each with a budget of its own.

    Args:
        problem: what is optimized.
        ask: the proposer; one that keeps something begins each time as it was given.
        effort: the limits of each; ``seconds`` of all together.
        seeds: how many, counted from that of ``effort``.
        root: folder for everything that happens; with several, one in it for each.
        resume: whether to go on with what is in ``root``.
        progress: whether to show a bar; by default in a terminal.

    Raises:
        InputError: the first seed instruction cannot be measured, the proposer has never worked,
            or ``root`` cannot be used.
    """
    require_count("seeds", seeds)
    with nullcontext() if root is None else held(root, resume):
        return _optimize_all(problem, ask, effort, seeds, root, resume, progress)


def _optimize_all(
    problem: Problem[WrittenT, ExampleT, OutputT],
    ask: Callable[[], Proposer],
    effort: Effort,
    seeds: int,
    root: Path | None,
    resume: bool,
    progress: bool | None,
) -> OptimizationResult:
    """The same, where the folder is ours."""
    proposer = ask()
    begun = proposer.state_dict()
    if root is not None:
        begin(root, _settings(problem, proposer, effort, seeds), resume)
    ends = None if effort.seconds is None else monotonic() + effort.seconds
    runs: list[OptimizationResult] = []
    for seed in range(effort.seed, effort.seed + seeds):
        left = None if ends is None else max(ends - monotonic(), 0.0)
        if runs and (left == 0 or runs[-1].stopped in (INTERRUPTED, LM_SPENT)):
            break
        if runs:
            proposer = ask()
            proposer.load_state_dict(begun)
        one = replace(effort, seed=seed, seconds=left)
        folder = root if root is None or seeds == 1 else root / f"seed-{seed}"
        if folder is not None and folder is not root:
            begin(folder, _settings(problem, proposer, one, 1), resume and is_begun(folder))
        log = EventLog(None if folder is None else folder / EVENTS)
        journal = None if folder is None else journal_of(folder)
        bar = partial(shown, log, progress)
        runs.append(solve(problem, proposer, one, log, journal, shown=bar))
        with uninterrupted():
            if folder is not None:
                runs[-1].save(folder)
    best = max(runs, key=lambda run: (run.validation, run.asked))  # a test chooses nobody
    if seeds > 1:
        last = runs[-1]  # what was spent until its end is what all have cost
        best = replace(
            best,
            runs=tuple(runs),
            writer_cost=last.writer_cost,
            program_cost=last.program_cost,
        )
        with uninterrupted():
            if root is not None:
                best.save(root)
    if progress is not False:
        tell_end(best)
    return best


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Keeps Ctrl-C away while files are written: the first one has said all there is to say."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _settings(
    problem: Problem[WrittenT, ExampleT, OutputT], proposer: Proposer, effort: Effort, seeds: int
) -> Mapping[str, JsonValue]:
    """What has to be the same on a resume, and what is asked for."""
    limits = asdict(effort)
    del limits["max_concurrency"]
    return {
        "seed_instruction": dict(problem.seeds[0].components),
        "others": [dict(one.components) for one in problem.seeds[1:]],
        "trainset": digest_of(problem.train),
        "valset": digest_of(problem.validation),
        "testset": digest_of(problem.test) if problem.test else None,
        "proposer": proposer.name,
        "required": list(problem.required),
        "seeds": seeds,
        **limits,
    }
