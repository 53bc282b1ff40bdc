"""Reads the pool of another run: its living candidates, each with its last weight."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evoprompt.engine import Engine
from evoprompt.errors import EvopromptWarning, InputError, StateError
from evoprompt.experiments.best import last_evaluation
from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.directory import RunDirectory, TrialDirectory
from evoprompt.experiments.eventfile import read_events
from evoprompt.experiments.pool import Pool, PoolSeed, fit_texts
from evoprompt.seeds import usable_seeds
from evoprompt.storage import STATE_FILE, load_state
from evoprompt.types import Proposal


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
        warnings.warn(notice, EvopromptWarning, stacklevel=2)
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
        pool = _of_events(read_events(TrialDirectory(source).events, headlines=False))
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
    best: Pool = ()
    most = float("-inf")
    for trial in evolving or directory.trials():
        events = list(read_events(directory.trial(trial).events))
        merit = max((found for found, _ in last_evaluation(events)), default=float("-inf"))
        if events and (not best or merit > most):
            best, most = _of_events(events, f"{trial} "), merit
    return best


def _of_events(events: Iterable[Mapping[str, Any]], trial: str = "") -> Pool:
    texts: dict[str, Mapping[str, str]] = {}
    weights: dict[str, float] = {}
    trained = False
    leading: dict[str, float] = {}
    alive: list[str] = []
    for event in events:
        match event["event"]:
            case "seeded":
                texts[event["candidate"]] = event["components"]
                alive.append(event["candidate"])
            case "proposed":
                texts[event["candidate"]] = event["components"]
            case "verified" if event["mean"] is not None:
                weights[event["candidate"]] = event["mean"]
            case "told":
                trained = True
                weights |= event["weights"]
            case "evaluated" if event["split"] == "validation":
                leading = {event["candidate"]: event["metrics"][event["headline"]["name"]]}
            case "pruned":
                alive = list(event["kept"])
            case "evolved":
                alive = list(event["population"])
    if not trained:  # a frozen policy: only the incumbent was asked the same as nobody else
        weights = leading
    return tuple(
        PoolSeed(origin=f"{trial}{name}", components=dict(texts[name]), weight=weights.get(name))
        for name in alive
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
