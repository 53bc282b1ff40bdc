"""Table at the end of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from rich.console import Console
from rich.table import Table
from rich.text import Text

from evoprompt.experiments.best import best_trial
from evoprompt.experiments.directory import RunDirectory
from evoprompt.experiments.summary import SeedSummary, Summary
from evoprompt.lm.budget import SpendTracker
from evoprompt.optimizer.folder import SPENDING
from evoprompt.support.text import printable


def show_results(directory: RunDirectory, summary: Summary, console: Console) -> None:
    """Print result and cost of each arm, and the best instruction."""
    assert summary.main_metric is not None  # a trial has finished
    columns: dict[str, Callable[[SeedSummary], float | None]] = {}
    if summary.target is not None:
        columns[f"{summary.target:g} after"] = lambda seed: seed.rollouts_to_target
    columns["train s"] = lambda seed: seed.train_seconds
    table = Table(
        title="test questions, greedy, each trial under its best instruction",
        title_style="dim",
        box=None,
        header_style="bold",
        padding=(0, 1, 0, 0),
    )
    table.add_column("arm (seeds)", overflow="fold")  # in a sweep it names the changed setting
    for name in (summary.main_metric.label, *columns):
        table.add_column(name, justify="right")
    for name, arm in summary.arms.items():
        spread = "" if arm.test.std is None else f" ±{arm.test.std:.3f}"
        cells = [_mean([number(seed) for seed in arm.seeds]) for number in columns.values()]
        table.add_row(f"{name} ({len(arm.seeds)})", f"{arm.test.mean:.3f}{spread}", *cells)
    console.print(table)
    best = best_trial(directory)
    console.print(f"best instruction, {best.trial}:", style="dim")
    console.print(Text(printable(best.instruction)), soft_wrap=True)  # so that it can be copied
    if best.statement:
        console.print(Text(best.statement))


def _mean(values: Sequence[float | None]) -> str:
    """Return the mean of the known values, and their number if some are unknown."""
    known_values = [value for value in values if value is not None]
    some = "" if len(known_values) in (0, len(values)) else f" ({len(known_values)}x)"
    return f"{fmean(known_values):,.2f}".removesuffix(".00") + some if known_values else "-"


def show_costs(directory: RunDirectory, console: Console) -> None:
    """Print the costs of the language models, separately for the writer and the program."""
    for spender, journal in (
        ("the proposer", directory.spending),
        ("the program", directory.root / SPENDING),
    ):
        charges = SpendTracker.from_journal(journal).settled if journal.is_file() else {}
        for model, charge in charges.items():
            console.print(
                f"{spender}: {model or 'its model'}: {charge}", style="dim", soft_wrap=True
            )
