"""``evoprompt run``: trains every arm with every seed, tests, and draws the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from evoprompt.runs.directory import RunDirectory


def run(
    config: Annotated[
        Path,
        typer.Argument(help="YAML file of the run, or with --resume its output.", metavar="CONFIG"),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", show_default="runs/NAME", help="Directory to write to."),
    ] = None,
    arm: Annotated[list[str] | None, typer.Option(help="Only this arm; repeatable.")] = None,
    seed: Annotated[int | None, typer.Option(help="First, or only, seed.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; repeatable."),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Trials at a time.")] = 1,
    smoke: Annotated[bool, typer.Option("--smoke", help="Only show that it works.")] = False,
    seeds_from: Annotated[
        Path | None,
        typer.Option(
            "--seeds-from",
            metavar="RUN",
            help="Start from the living instructions of this run, trial or checkpoint.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a stopped run.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done and what is missing.")
    ] = False,
    probe: Annotated[
        bool, typer.Option("--probe", help="In a dry run: ask each language model once.")
    ] = False,
) -> None:
    """Train all arms and seeds of a configuration, and compare them.

    Ctrl-C saves after the current step and says how to resume. A dry run checks
    everything, loads no model, writes nothing, sends nothing (but for --probe) and
    ends with exit code 3 if this machine lacks something.
    """
    from rich.console import Console

    from evoprompt.cli.display import Display
    from evoprompt.cli.forecast import MISSING, show_forecast
    from evoprompt.cli.results import show_results
    from evoprompt.lm.budget import SpendTracker
    from evoprompt.runs.check import check, look_ahead
    from evoprompt.runs.config import load
    from evoprompt.runs.directory import RunDirectory
    from evoprompt.runs.distributed import follow, is_follower, require_one_at_a_time
    from evoprompt.runs.host_defaults import with_host_defaults
    from evoprompt.runs.runner import run as run_trials

    if resume and config.is_dir():
        output, config = output or config, config / "config.yaml"
    overrides = list(set_ or ())
    if seeds_from is not None:
        overrides.append(f"seeds_from={json.dumps(str(seeds_from))}")
    wanted = load(config, overrides, smoke).narrowed(arm or (), seed, seeds)
    if dry_run:
        wanted = with_host_defaults(wanted)
        found = look_ahead(wanted, probe)
        show_forecast(wanted, found, Console(markup=False, highlight=False))
        raise typer.Exit(MISSING if found.missing else 0)
    require_one_at_a_time(jobs, output)
    if output is not None and is_follower():
        following = RunDirectory.resumed(output, wanted) if resume else RunDirectory(output, wanted)
        follow(following, resume)
        return
    root = output or _default_output(config, resume)
    directory = RunDirectory.resumed(root, wanted) if resume else RunDirectory.new(root, wanted)
    begun = directory.spending.exists()
    spending = SpendTracker(directory.spending if begun else None)
    spending.require_readable()
    found = check(directory.config, spending)
    expected = found.language
    console = Console(markup=False, highlight=False)
    console.print(f"run of {config} -> {root}", style="dim", soft_wrap=True)
    if expected.calls:
        console.print(f"language model: {expected}", style="dim", soft_wrap=True)
    if not begun:
        SpendTracker(directory.spending).join(spending.settled)
    display = Display(directory.config, console)
    with display.shown():
        outcome = run_trials(directory, display, resume, jobs, found.isolated)
    if outcome.summary.arms:
        show_results(directory, outcome.summary, console)
        _draw(directory, console)
    for trial, reason in outcome.fruitless.items():
        kept = directory.trial(trial).policy
        console.print(
            f"{trial} evolved nothing: {reason}; its policy is kept in {kept}",
            style="bold red",
            soft_wrap=True,
        )
    again = f"evoprompt run {root} --resume" + (f" --jobs {jobs}" if jobs > 1 else "")
    if outcome.interrupted:
        console.print(f"stopped; continue with: {again}", style="yellow", soft_wrap=True)
        raise typer.Exit(130)
    if outcome.failed:
        for trial in outcome.failed:
            console.print(f"{trial} failed: see {directory.trial(trial).error}", style="red")
        console.print(f"fix the cause and continue with: {again}", style="red", soft_wrap=True)
        raise typer.Exit(2 if outcome.bad_input else 1)
    if outcome.fruitless:
        raise typer.Exit(1)


def _default_output(config: Path, resume: bool) -> Path:
    """``runs/NAME``, then ``runs/NAME-2`` and so on; the newest of them to resume."""
    number, path = 1, Path("runs") / config.stem
    newest = path
    while path.exists():
        newest = path
        number += 1
        path = path.with_name(f"{config.stem}-{number}")
    return newest if resume else path


def _draw(directory: RunDirectory, console: Console) -> None:
    from evoprompt.report import write_report

    try:
        for path in write_report(directory):
            console.print(str(path), style="dim", soft_wrap=True)
    except ModuleNotFoundError as error:
        console.print(
            f'no report without {error.name}: pip install "evoprompt[report]", then '
            f"evoprompt report {directory.root}",
            style="yellow",
            soft_wrap=True,
        )
