"""The table of finished runs: arms by strata, over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from evoprompt.errors import InputError
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.summary import SeedSummary
from evoprompt_search_qa.harness.table import AVERAGE, Cell, Row, Table

INTERVALS = "brackets: lowest and highest seed"


def run_table(runs: Sequence[RunDirectory]) -> Table:
    """Test exact match of every arm, means over the seeds of all ``runs``.

    An arm after which another one starts is a stage of that one and has no row. The average is
    that of the columns, as in the paper.

    Raises:
        InputError: nothing is finished, or two runs hold the same seed of an arm.
    """
    results: dict[str, dict[int, SeedSummary]] = {}
    for run in runs:
        stages = {arm.after for arm in run.config.arms.values()}
        for name in run.config.arms:
            if name in stages:
                continue
            for seed in run.config.seeds:
                result = run.trial(TrialId(name, seed)).finished
                if result is None:
                    continue
                if seed in results.setdefault(name, {}):
                    raise InputError(
                        f"arm {name!r} with seed {seed} is in {run.root} and in a run before it; "
                        "required: different seeds; leave one run out"
                    )
                results[name][seed] = result
    finished = [found for seeds in results.values() for found in seeds.values()]
    if not finished:
        raise InputError(
            f"nothing is finished in {', '.join(str(run.root) for run in runs)}; required: a run "
            "with results; wait, or continue it with --resume"
        )
    strata = sorted(finished[0].test.by_stratum)
    counts = sorted({len(seeds) for seeds in results.values()} - {0})
    seeds = "1 seed" if counts == [1] else f"means over {'/'.join(map(str, counts))} seeds"
    return Table(
        title=f"Test exact match in %, {seeds}",
        intervals=INTERVALS,
        columns=(*(f"{stratum}-hop" for stratum in strata), AVERAGE),
        rows=tuple(
            Row(name=name, cells=_cells([*found.values()], strata))
            for name, found in results.items()
            if found
        ),
    )


def _cells(seeds: Sequence[SeedSummary], strata: Sequence[str]) -> tuple[Cell, ...]:
    columns = [[seed.test.by_stratum[stratum] for seed in seeds] for stratum in strata]
    averages = [fmean(values) for values in zip(*columns, strict=True)]
    return tuple(_cell(values) for values in (*columns, averages))


def _cell(values: Sequence[float]) -> Cell:
    return Cell(value=fmean(values), low=min(values), high=max(values), scored=len(values))
