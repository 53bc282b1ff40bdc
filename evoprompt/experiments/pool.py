"""The pool of another run as the seeds of this one: what is read, and what of it a task can use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from evoprompt.engine import Engine
from evoprompt.errors import InputError, StateError
from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.directory import RunDirectory
from evoprompt.experiments.history import History
from evoprompt.experiments.sections import Pool, PoolSeed
from evoprompt.rules import ScreeningContext, default_rules, duplicate
from evoprompt.screening import Finding, check, clean
from evoprompt.storage import STATE_FILE, load_state
from evoprompt.types import INSTRUCTION, Proposal

if TYPE_CHECKING:
    from evoprompt.agents.tasks import Task

_TOLD = 8  # refusals that one error names


@dataclass(frozen=True, slots=True)
class Fitted:
    """What a task can use of a pool.

    Attributes:
        seeds: for an engine, the highest weight first; never empty.
        notices: what was left out and why, for people to read.
    """

    seeds: tuple[Proposal, ...]
    notices: tuple[str, ...]


def fit(pool: Pool, source: str, task: Task, most: int) -> Fitted:
    """The best of ``pool`` that ``task`` can use.

    Each is judged as an offspring of the task's own seed instructions would be.

    Args:
        pool: what was read, the highest weight first.
        source: the run it was read from, for messages and lineage.
        task: whose ``required`` texts they must hold.
        most: instructions that the population has room for.

    Raises:
        InputError: the task can use none of them.
    """
    first, required = task.seeds[0], task.required
    components = {INSTRUCTION} if isinstance(first, str) else set(first)
    context = ScreeningContext(parents=list(task.seed_instructions), required=tuple(required))
    seeds: list[Proposal] = []
    refused: list[str] = []
    for one in pool:
        weight = "" if one.weight is None else f", weight {one.weight:.2f}"
        proposal = clean(Proposal(one.components, rationale=f"{source}: {one.origin}{weight}"))
        context = replace(context, living=[seed.text for seed in seeds])
        found = check(proposal, context, [rule for rule in default_rules() if rule != duplicate])
        found = found or check(proposal, replace(context, parents=()), [duplicate])
        if proposal.components.keys() != components:
            has = f"has the components {sorted(proposal.components)}"
            found = Finding("components", f"{has}; required: {sorted(components)}")
        if found is None:
            seeds.append(proposal)
        else:
            refused.append(f"{one.origin} ({found.rule}: {found.reason})")
    if not seeds:
        holding = f", that hold {', '.join(required)}" if required else ""
        raise InputError(
            f"this task can use none of the {len(pool)} instructions of {source}: "
            f"{'; '.join(refused[:_TOLD])}; required: instructions for a tool of the same kind"
            f"{holding}; choose another run, or start without seeds_from"
        )
    notices = [f"not taken over from {source}: {one}" for one in refused]
    if len(seeds) > most:
        notices.append(
            f"left out of {source}: {len(seeds) - most} of {len(seeds)} instructions, those of the "
            f"lowest weight; there is room for {most}"
        )
    return Fitted(tuple(seeds[:most]), tuple(notices))


def with_pools(config: RunConfig) -> RunConfig:
    """``config`` with the pool of every run that its arms take their seeds from.

    What is there already stays: a run that is resumed starts from what was found when it began.

    Raises:
        InputError: there is no pool to be read.
    """
    pools = dict(config.pools)
    for arm in config.arms:
        source = config.seeds_from_of(arm)
        if source is not None and source not in pools:
            pools[source] = read_pool(Path(source))
    return config.model_copy(update={"pools": pools})


def read_pool(source: Path) -> Pool:
    """The living candidates of a run, a trial or a checkpoint; it need not be finished.

    Of a run with several trials, the one that did best at its last evaluation on validation
    questions, among those in which instructions evolve.

    Args:
        source: output directory of a run, the folder of one of its trials, or a checkpoint.

    Raises:
        InputError: it is none of these, or nothing was written there yet.
    """
    if (source / "config.yaml").is_file():
        pool = _of_run(RunDirectory.open(source))
    elif (source / "events.jsonl").is_file():
        pool = _living(History.read(source / "events.jsonl"))
    elif (source / STATE_FILE).is_file():
        pool = _of_state(source / STATE_FILE)
    else:
        raise InputError(
            f"seeds_from is {source}, which holds no pool; required: the output directory of an "
            f"`evoprompt run`, the folder of one of its trials, or a checkpoint with {STATE_FILE}; "
            "check the path"
        )
    if not pool:
        raise InputError(
            f"seeds_from is {source}, in which no instruction was ever used; required: a run that "
            "has begun to train; wait, or choose another"
        )
    return tuple(sorted(pool, key=lambda one: (one.weight is None, -(one.weight or 0.0))))


def _of_run(directory: RunDirectory) -> Pool:
    config = directory.config
    evolving = [t for t in directory.trials() if config.engine_of(t.arm).proposer is not None]
    trials = evolving or directory.trials()
    found = [(trial, History.read(directory.trial(trial).events)) for trial in trials]
    begun = [(trial, history) for trial, history in found if history.candidates]
    if not begun:
        return ()
    trial, best = max(begun, key=lambda one: -inf if one[1].merit is None else one[1].merit)
    return _living(best, f"{trial} ")


def _living(history: History, trial: str = "") -> Pool:
    return tuple(
        PoolSeed(
            origin=f"{trial}{one.id}", components=dict(one.components), weight=history.worth(one)
        )
        for one in history.living
    )


def _of_state(file: Path) -> Pool:
    engine = Engine(["replaced by what was saved"])
    try:
        engine.load_state_dict(load_state(file))
    except StateError as error:
        raise InputError(
            f"{file} holds no pool that can be read ({error}); required: the state of an engine "
            "with the usual population and weights; name the trial's own folder"
        ) from error
    return tuple(
        PoolSeed(
            origin=f"{stats.candidate.id} at step {engine.step}",
            components=dict(stats.candidate.components),
            weight=stats.weight if stats.groups else None,
        )
        for stats in engine.candidate_stats()
    )
