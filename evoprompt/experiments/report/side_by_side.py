"""Several runs in one page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from evoprompt.experiments.report.source import Source, logs_of
from evoprompt.experiments.summary import Summary
from evoprompt.lm.budget import Charge


def side_by_side(sources: Sequence[Source], paths: Sequence[Path]) -> Source:
    """One source whose arms are those of all ``sources``, named after their folders.

    Args:
        sources: at least one, which is given back as it is.
        paths: where each was read.
    """
    if len(sources) == 1:
        return sources[0]
    names = _names(paths)
    runs = tuple(_named(name, one) for name, one in zip(names, sources, strict=True))
    spending: dict[str, Charge] = {}
    for run in runs:
        for model, charge in run.spending.items():
            spending[model] = spending.get(model, Charge()) + charge
    return Source(
        title=" and ".join(names),
        lead=tuple(sentence for run in runs for sentence in run.lead),
        histories=tuple(history for run in runs for history in run.histories),
        arms=tuple(arm for run in runs for arm in run.arms),
        summary=Summary.of(
            {arm: one.seeds for run in runs for arm, one in run.summary.arms.items()}
        ),
        config="\n".join(run.config for run in runs),
        spending=spending,
        grids=tuple(grid for run in runs for grid in run.grids),
        problems=tuple(problem for run in runs for problem in run.problems),
        runs=runs,
    )


def _named(name: str, source: Source) -> Source:
    """The same, with the name before everything that is told of it."""
    return replace(
        source,
        lead=tuple(f"{name}: {sentence}" for sentence in source.lead),
        histories=tuple(replace(one, arm=f"{name}: {one.arm}") for one in source.histories),
        arms=tuple(f"{name}: {arm}" for arm in source.arms),
        summary=Summary.of(
            {f"{name}: {arm}": found.seeds for arm, found in source.summary.arms.items()}
        ),
        config=f"# {name}\n{source.config}",
        grids=tuple(
            grid.model_copy(update={"arm": f"{name}: {grid.arm}"}) for grid in source.grids
        ),
        problems=tuple(f"{name}: {problem}" for problem in source.problems),
    )


def logs_side_by_side(paths: Sequence[Path]) -> dict[tuple[str, int], Path]:
    """The file of events of each trial, by its arm as in the page of these ``paths``, and seed."""
    if len(paths) == 1:
        return logs_of(paths[0])
    return {
        (f"{name}: {arm}", seed): log
        for name, path in zip(_names(paths), paths, strict=True)
        for (arm, seed), log in logs_of(path).items()
    }


def _names(paths: Sequence[Path]) -> list[str]:
    short = [path.resolve().name for path in paths]
    twice = Counter(short)
    return [str(path) if twice[name] > 1 else name for path, name in zip(paths, short, strict=True)]
