"""Several runs in one page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from evoprompt.lm.budget import Charge
from evoprompt.report.source import Source, logs_of
from evoprompt.report.verdict import comparisons
from evoprompt.runs.summary import Summary


def side_by_side(sources: Sequence[Source], paths: Sequence[Path]) -> Source:
    """One source whose arms are those of all ``sources``, named after their folders.

    Args:
        sources: at least one, which is given back as it is.
        paths: where each was read.
    """
    if len(sources) == 1:
        return sources[0]
    names = _names(paths)
    spending: dict[str, Charge] = {}
    for source in sources:
        for model, charge in source.spending.items():
            spending[model] = spending.get(model, Charge()) + charge
    named = list(zip(names, sources, strict=True))
    arms = {
        f"{name}: {arm}": found.seeds
        for name, one in named
        for arm, found in one.summary.arms.items()
    }
    return Source(
        title=" and ".join(names),
        lead=tuple(
            f"{name}: {sentence}"
            for name, one in named
            for sentence in (*one.lead, *_verdicts(one))
        ),
        histories=tuple(
            replace(history, arm=f"{name}: {history.arm}")
            for name, one in named
            for history in one.histories
        ),
        arms=tuple(f"{name}: {arm}" for name, one in named for arm in one.arms),
        summary=Summary.of(arms),
        config="\n".join(f"# {name}\n{one.config}" for name, one in named),
        spending=spending,
        grids=tuple(
            grid.model_copy(update={"arm": f"{name}: {grid.arm}"})
            for name, one in named
            for grid in one.grids
        ),
        problems=tuple(f"{name}: {problem}" for name, one in named for problem in one.problems),
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


def _verdicts(source: Source) -> list[str]:
    return [
        f"{one.arm} {one.value:.3f} against {one.against:.3f} of {one.baseline}. {one.verdict}"
        for one in comparisons(source)
    ]
