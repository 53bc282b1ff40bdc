"""The pool of another run as the seeds of this one: what is read, and what of it a task can use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from evoprompt.engine import Engine
from evoprompt.errors import InputError, StateError, warn
from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.directory import RunDirectory
from evoprompt.experiments.history import History
from evoprompt.experiments.sections import Pool, PoolSeed
from evoprompt.rules import ScreeningContext, default_rules, duplicate
from evoprompt.screening import Finding, check, clean, usable_seeds
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
    first = task.seeds[0]
    components = {INSTRUCTION} if isinstance(first, str) else set(first)
    return fit_texts(pool, source, task.seed_instructions, components, task.required, most)


def fit_texts(
    pool: Pool,
    source: str,
    own: Sequence[str],
    components: Set[str],
    required: Sequence[str],
    most: int,
) -> Fitted:
    """The best of ``pool`` that a task with these texts can use; see :func:`fit`.

    Args:
        pool: what was read, the highest weight first.
        source: the run it was read from, for messages and lineage.
        own: the seed instructions of the task.
        components: names of what they consist of.
        required: texts that an instruction must hold.
        most: instructions that there is room for.

    Raises:
        InputError: the task can use none of them.
    """
    rules = [rule for rule in default_rules() if rule is not duplicate]
    context = ScreeningContext(parents=list(own), required=tuple(required))
    seeds: list[Proposal] = []
    refused: list[str] = []
    for one in pool:
        proposal = clean(Proposal(one.components, rationale=_origin(source, one)))
        found = (
            _mismatch(proposal, components)
            or check(proposal, context, rules)
            or check(proposal, ScreeningContext(living=[seed.text for seed in seeds]), [duplicate])
        )
        if found is None:
            seeds.append(proposal)
        else:
            refused.append(f"{one.origin} ({found.rule}: {found.reason})")
    if not seeds:
        raise InputError(
            f"this task can use none of the {len(pool)} instructions of {source}: "
            f"{'; '.join(refused[:_TOLD])}; required: instructions for a tool of the same kind"
            f"{_holding(required)}; choose another run, or start without seeds_from"
        )
    notices = [f"not taken over from {source}: {one}" for one in refused]
    if len(seeds) > most:
        notices.append(
            f"left out of {source}: {len(seeds) - most} of {len(seeds)} instructions, those of the "
            f"lowest weight; there is room for {most}"
        )
    return Fitted(tuple(seeds[:most]), tuple(notices))


def _mismatch(proposal: Proposal, components: Set[str]) -> Finding | None:
    if set(proposal.components) == components:
        return None
    return Finding(
        "components",
        f"has the components {sorted(proposal.components)}; required: {sorted(components)}",
    )


def _origin(source: str, one: PoolSeed) -> str:
    weight = "" if one.weight is None else f", weight {one.weight:.2f}"
    return f"{source}: {one.origin}{weight}"


def _holding(required: Sequence[str]) -> str:
    return f", that hold {', '.join(required)}" if required else ""


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


def seeds_with(
    source: str | Path,
    seed_instruction: str | Mapping[str, str],
    required: Sequence[str] = (),
    most: int = 16,
) -> list[Proposal]:
    """``seed_instruction`` and after it the pool of another run, for ``evoprompt.optimize``.

    Warns of what of the pool cannot be used.

    Args:
        source: a run, trial, checkpoint or the directory of an optimization.
        seed_instruction: where to start besides.
        required: texts that every instruction must hold.
        most: instructions that are taken over.

    Raises:
        InputError: there is no pool, or none of it can be used.
    """
    own = usable_seeds([seed_instruction], 1, required)
    pool = tuple(one for one in read_pool(Path(source)) if one.components != own[0].components)
    if not pool:
        return own
    names = set(own[0].components)
    fitted = fit_texts(pool, str(source), [own[0].text], names, required, most)
    for notice in fitted.notices:
        warn(notice)
    return [*own, *fitted.seeds]


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
