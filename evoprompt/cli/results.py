"""The table at the end of a run."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from evoprompt.runs.best import best_instruction
from evoprompt.runs.directory import RunDirectory
from evoprompt.runs.summary import SeedSummary, Summary
from evoprompt.text import printable


def show_results(directory: RunDirectory, summary: Summary, console: Console) -> None:
    """Prints what each arm reached and cost, and the best instruction."""
    strata = sorted({name for arm in summary.arms.values() for name in _strata(arm.seeds)})
    table = Table(
        title="test questions, greedy, each trial under its best instruction",
        title_style="dim",
        box=None,
        header_style="bold",
        padding=(0, 1, 0, 0),
    )
    table.add_column("arm (seeds)")
    for name in ("exact match", f"by {'/'.join(strata)}", "calls", "0.8 after"):
        table.add_column(name, justify="right")
    for name in ("train s", "engine", "verify"):
        table.add_column(name, justify="right")
    for name, arm in summary.arms.items():
        by_stratum = [_mean([s.test_em_by_hops.get(k) for s in arm.seeds], ".2f") for k in strata]
        table.add_row(
            f"{name} ({len(arm.seeds)})",
            _spread([seed.test_em for seed in arm.seeds]),
            "/".join(value.lstrip("0") for value in by_stratum),
            _mean([seed.tool_calls for seed in arm.seeds], ".2f"),
            _reached(arm.seeds),
            _mean([seed.train_seconds for seed in arm.seeds], ".0f"),
            _mean([seed.engine_seconds for seed in arm.seeds], ".2f"),
            _mean([seed.verify_seconds for seed in arm.seeds], ".1f"),
        )
    console.print(table)
    console.print(
        Panel(
            Text(printable(best_instruction(directory))),
            title="best instruction",
            title_align="left",
        )
    )


def _strata(seeds: Sequence[SeedSummary]) -> set[str]:
    return {name for seed in seeds for name in seed.test_em_by_hops}


def _mean(values: Sequence[float | None], form: str) -> str:
    known = [value for value in values if value is not None]
    return format(fmean(known), form) if known else "-"


def _spread(values: Sequence[float]) -> str:
    return f"{fmean(values):.3f}" + (f" ±{stdev(values):.3f}" if len(values) > 1 else "")


def _reached(seeds: Sequence[SeedSummary]) -> str:
    """Mean rollouts to the target; how many seeds got there when not all did."""
    reached = [seed.rollouts_to_target for seed in seeds if seed.rollouts_to_target is not None]
    if not reached:
        return "never"
    some = "" if len(reached) == len(seeds) else f" ({len(reached)}x)"
    return f"{fmean(reached):,.0f}{some}"
