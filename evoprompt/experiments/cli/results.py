"""The table at the end of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, stdev

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from evoprompt.experiments.best import best_trial
from evoprompt.experiments.directory import RunDirectory
from evoprompt.experiments.summary import SeedSummary, Summary
from evoprompt.lm.budget import SpendTracker
from evoprompt.optimizer.folder import SPENDING
from evoprompt.text import printable

CALLS = "tool_calls"
"""The metric that has a column of its own where a task measures it."""

Column = Callable[[Sequence[SeedSummary]], str]


def show_results(directory: RunDirectory, summary: Summary, console: Console) -> None:
    """Prints what each arm reached and cost, and the best instruction."""
    assert summary.headline is not None  # somebody has finished
    columns: dict[str, Column] = {
        summary.headline.label: lambda arm: _spread([seed.test.value for seed in arm])
    }
    if CALLS in summary.metrics:
        columns["calls"] = lambda arm: _mean([seed.test.metrics.get(CALLS) for seed in arm], ".2f")
    if summary.target is not None:
        columns[f"{summary.target:g} after"] = _reached
    if any(seed.test.failures.failed for seed in summary.seeds):
        columns["failed"] = _failed
    columns["train s"] = lambda arm: _mean([seed.train_seconds for seed in arm], ".0f")
    columns["engine"] = lambda arm: _mean([seed.engine_seconds for seed in arm], ".2f")
    columns["verify"] = lambda arm: _mean([seed.verify_seconds for seed in arm], ".1f")
    table = Table(
        title="test questions, greedy, each trial under its best instruction",
        title_style="dim",
        box=None,
        header_style="bold",
        padding=(0, 1, 0, 0),
    )
    table.add_column("arm (seeds)")
    for name in columns:
        table.add_column(name, justify="right")
    for name, arm in summary.arms.items():
        cells = (tell(arm.seeds) for tell in columns.values())
        table.add_row(f"{name} ({len(arm.seeds)})", *cells)
    console.print(table)
    if summary.strata:
        console.print(_by_stratum(summary))
    best = best_trial(directory)
    console.print(
        Panel(
            Text(printable(best.instruction)),
            title="best instruction",
            title_align="left",
        )
    )
    if best.statement:
        console.print(Text(best.statement))


def _by_stratum(summary: Summary) -> Table:
    assert summary.headline is not None  # somebody has finished
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column(f"{summary.headline.label} by stratum")
    for name in summary.arms:
        table.add_column(name, justify="right")
    for stratum in summary.strata:
        tested = [
            [seed.test.by_stratum.get(stratum) for seed in arm.seeds]
            for arm in summary.arms.values()
        ]
        table.add_row(stratum, *(_mean(values, ".2f") for values in tested))
    return table


def _mean(values: Sequence[float | None], form: str) -> str:
    known = [value for value in values if value is not None]
    return format(fmean(known), form) if known else "-"


def _spread(values: Sequence[float]) -> str:
    return f"{fmean(values):.3f}" + (f" ±{stdev(values):.3f}" if len(values) > 1 else "")


def _failed(seeds: Sequence[SeedSummary]) -> str:
    """Test questions that came to nothing, of all that were asked."""
    tests = [seed.test.failures for seed in seeds]
    return f"{sum(one.failed for one in tests)}/{sum(one.of for one in tests)}"


def show_costs(directory: RunDirectory, console: Console) -> None:
    """Prints what the language models of the writer and of the program have cost, apart."""
    for who, journal in (
        ("the writer", directory.spending),
        ("the program", directory.root / SPENDING),
    ):
        if not journal.is_file():
            continue
        for model, spent in SpendTracker.seen(journal).settled.items():
            usd = f"{spent.usd:.4g} USD" if spent.priced else "price unknown"
            told = f"{spent.calls:,} calls, {spent.tokens:,} tokens, {usd}"
            console.print(f"{who}: {model or 'its model'}: {told}", style="dim", soft_wrap=True)


def _reached(seeds: Sequence[SeedSummary]) -> str:
    """Mean rollouts to the target; how many seeds got there when not all did."""
    reached = [seed.rollouts_to_target for seed in seeds if seed.rollouts_to_target is not None]
    if not reached:
        return "never"
    some = "" if len(reached) == len(seeds) else f" ({len(reached)}x)"
    return f"{fmean(reached):,.0f}{some}"
