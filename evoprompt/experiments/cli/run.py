"""``evoprompt run``: trains every arm with every seed, tests, and draws the report."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evoprompt.experiments.cli.options import (
    Changes,
    DryRun,
    FirstSeed,
    Jobs,
    Output,
    Resume,
    Seeds,
    SeedsFrom,
    with_seeds_from,
)
from evoprompt.support.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from evoprompt.experiments.config import RunConfig
    from evoprompt.experiments.directory import RunDirectory
    from evoprompt.lm.budget import SpendTracker


def run(
    config: Annotated[
        Path,
        typer.Argument(help="YAML file of the run, or with --resume its output.", metavar="CONFIG"),
    ],
    output: Output = None,
    arm: Annotated[list[str] | None, typer.Option(help="Only this arm; repeatable.")] = None,
    seed: FirstSeed = None,
    seeds: Seeds = None,
    changes: Changes = None,
    jobs: Jobs = None,
    launcher: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Where trials run: local, ray, slurm."),
    ] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="Only show that it works.")] = False,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE,VALUE",
            help="An arm for each value of a setting of host or engine; repeatable.",
        ),
    ] = None,
    seeds_from: SeedsFrom = None,
    resume: Resume = False,
    dry_run: DryRun = False,
    gpu_price: Annotated[
        float | None,
        typer.Option(min=0, metavar="USD", help="Of a GPU hour, for the cost that --dry-run says."),
    ] = None,
) -> None:
    """Train all arms and seeds of a configuration, and compare them.

    Ctrl-C saves after the current step and says how to resume. A dry run checks
    everything, loads no model, writes and sends nothing, and ends with exit code 3 if this
    machine lacks something.
    """
    from evoprompt.experiments.config import load
    from evoprompt.experiments.sweep import swept

    if resume and config.is_dir():
        output, config = output or config, config / "config.yaml"
    overrides = with_seeds_from(changes, seeds_from)
    if launcher is not None:
        overrides.append(f"launcher.name={json.dumps(launcher)}")
    wanted = load(config, overrides, smoke).narrowed(arm or (), seed, seeds)
    wanted = swept(wanted, sweep or ())
    if gpu_price is not None and not dry_run:
        raise InputError(
            "--gpu-price is given without --dry-run; required: both; drop it, or add --dry-run"
        )
    launch(wanted, config, output, jobs, resume=resume, dry_run=dry_run, gpu_price=gpu_price)


def launch(
    wanted: RunConfig,
    config: Path,
    output: Path | None,
    jobs: int | None,
    *,
    resume: bool,
    dry_run: bool,
    gpu_price: float | None = None,
    spent: SpendTracker | None = None,
) -> None:
    """Runs, resumes or forecasts ``wanted``, and ends with the exit code that says how it went.

    Args:
        wanted: the run.
        config: where it comes from; its stem names the folder where ``output`` does not.
        output: the folder.
        jobs: trials at a time; by default as many as the launcher has room for.
        resume: whether to continue what is in the folder.
        dry_run: whether to say what would be done, and no more.
        gpu_price: USD of a GPU hour, for the cost that is said then.
        spent: what the writer has cost before.
    """
    from evoprompt.experiments.directory import RunDirectory
    from evoprompt.support.storage import is_follower

    root = output or _default_output(config, resume)
    if not dry_run and not is_follower():
        RunDirectory.open(root) if resume else RunDirectory.new(root, wanted)  # may refuse it
        typer.secho(_first_line(wanted, config, root), dim=True)
    # From here on everything is slow to import.
    from functools import partial

    from rich.console import Console

    from evoprompt.experiments.check import check, look_ahead
    from evoprompt.experiments.cli.display import Display
    from evoprompt.experiments.cli.forecast import MISSING, show_forecast
    from evoprompt.experiments.cli.results import show_costs, show_results
    from evoprompt.experiments.config import with_host_defaults
    from evoprompt.experiments.distributed import follow, require_one_at_a_time
    from evoprompt.experiments.runner import run as run_trials
    from evoprompt.lm.budget import SpendTracker
    from evoprompt.plugins import build

    starter = build("launcher", wanted.launcher)
    if dry_run:
        wanted = with_host_defaults(wanted)
        found = look_ahead(wanted, root=root, here=not starter.elsewhere)
        if starter.elsewhere:
            found = replace(found, needs=(*found.needs, starter.reach()))
        show_forecast(wanted, found, Console(markup=False, highlight=False), gpu_price)
        raise typer.Exit(MISSING if found.missing else 0)
    require_one_at_a_time(jobs, output)
    if output is not None and is_follower():
        following = RunDirectory.resumed(output, wanted) if resume else RunDirectory(output, wanted)
        follow(following)
        return
    directory = RunDirectory.resumed(root, wanted) if resume else RunDirectory(root, wanted)
    begun = directory.spending.exists()
    spending = spent or SpendTracker(directory.spending if begun else None)
    _ = spending.spent  # refuses now a journal that cannot be read
    console = Console(markup=False, highlight=False)
    say = partial(console.print, soft_wrap=True)
    notices = list(starter.open())
    found = check(directory.config, spending, root, here=not starter.elsewhere)
    told = [notice for arm in found.arms for notice in arm.plan.notices]
    for notice in dict.fromkeys([*notices, *told]):
        say(notice, style="yellow")
    if found.language.calls:
        say(f"language model: {found.language}", style="dim")
    if not begun:
        SpendTracker(directory.spending).join(spending.settled)
    display = Display(directory, console)
    with closing(starter):
        outcome = run_trials(directory, display, jobs, found.isolated, starter)
    if outcome.summary.arms:
        show_results(directory, outcome.summary, console)
        show_costs(directory, console)
        _draw(directory, console)
    for trial, reason in outcome.nothing_evolved.items():
        kept = f"its policy is kept in {directory.trial(trial).policy}"
        say(f"{trial} evolved nothing: {reason}; {kept}", style="bold red")
    again = f"evoprompt run {root} --resume" + (f" --jobs {jobs}" if jobs else "")
    if outcome.interrupted:
        say(f"stopped; continue with: {again}", style="yellow")
        raise typer.Exit(130)
    if outcome.failed:
        for trial in outcome.failed:
            say(f"{trial} failed: see {directory.trial(trial).error}", style="red")
        say(f"fix the cause and continue with: {again}", style="red")
        raise typer.Exit(2 if outcome.bad_input else 1)
    if outcome.nothing_evolved:
        raise typer.Exit(1)


def _first_line(wanted: RunConfig, config: Path, root: Path) -> str:
    from evoprompt.support.text import many

    arms = list(wanted.arms)
    compared = ", ".join(arms) if len(arms) < 4 else f"{len(arms)} arms"
    budgets = sorted({wanted.budget_of(arm) for arm in arms})
    least = f"{budgets[0]:,} to " if len(budgets) > 1 else ""
    each = f"{many(len(wanted.seeds), 'seed')}, {least}{many(budgets[-1], 'rollout')} each"
    return f"run of {config} -> {root}: {compared}; {each}"


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
    from evoprompt.experiments.report import write_report

    try:
        told, style = str(write_report(directory.root)), "dim"
    except ModuleNotFoundError as error:
        again = f'pip install "evoprompt[report]", then evoprompt report {directory.root}'
        told, style = f"no report without {error.name}: {again}", "yellow"
    console.print(told, style=style, soft_wrap=True)
