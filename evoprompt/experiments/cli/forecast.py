"""Output of ``evoprompt run --dry-run``: work, costs and needs of a run."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import NoReturn, cast

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from evoprompt.agents.tasks import Need, Plan
from evoprompt.experiments.check import ArmForecast, Forecast
from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.hosts.frozen import ENGINE_SETTINGS
from evoprompt.experiments.settings import differences
from evoprompt.hosting.section import Settings
from evoprompt.support import yamlfile
from evoprompt.support.text import many

MISSING = 3
"""Exit code of a dry run that found something missing on this machine."""


def show_forecast(
    config: RunConfig, forecast: Forecast, console: Console, price: float | None = None
) -> None:
    """Print the settings in use, the arms, the figures of the task and unmet needs.

    Args:
        config: the run.
        forecast: of the run.
        console: for the text.
        price: USD of a GPU hour.
    """
    settings = _used_settings(config)
    arms = cast(dict[str, Settings], settings["arms"])
    first, *other_arms = arms
    console.print(yamlfile.dump({**settings, "arms": {first: arms[first]}}), soft_wrap=True)
    for name in other_arms:  # settings in common are printed once
        for path, _, value in differences(arms[first], arms[name]):
            console.print(f"{name}: {path} is {json.dumps(value)}", soft_wrap=True)
    arm_column = Column("arm", overflow="fold")  # in a sweep it names the changed setting
    columns = ("rollouts each", "generations", "verification", "LM calls")
    table = Table(arm_column, *columns, box=None, header_style="bold", padding=(0, 2, 0, 0))
    arms_by_line: dict[str, list[str]] = {}  # notices and figures, each with its arms
    for arm in forecast.arms:
        # Without rounds of verification, the interval between generations is an expectation.
        is_bound = arm.verification > 0 or arm.plan.iterations is not None
        bound = "at most" if is_bound else "about"
        calls = arm.language if arm.most_language is None else arm.most_language
        table.add_row(
            arm.arm,
            f"at most {arm.rollouts:,}" if is_bound else f"{arm.rollouts:,}",
            f"{bound} {arm.generations:,}" if arm.generations else "none",
            f"at most {arm.verification:,} a round" if arm.verification else "none",
            f"{bound} {calls.calls:,}" if arm.generations else "none",
        )
        figures = [*arm.plan.figures, *_time_of(arm)]
        for line in (*arm.notices, *(f"{name}: {text}" for name, text in figures)):
            arms_by_line.setdefault(line, []).append(arm.arm)
    console.print(table)
    breakdown = f"{many(len(forecast.arms), 'arm')} x {many(forecast.seeds, 'seed')}"
    total = f"at most {forecast.rollouts:,} rollouts in all"
    console.print(f"{many(forecast.trials, 'trial')} ({breakdown}), {total}", soft_wrap=True)
    notices = {notice for arm in forecast.arms for notice in arm.notices}
    for line, names in arms_by_line.items():
        style = "yellow" if line in notices else None
        label = "all arms" if len(names) == len(arms) > 2 else ", ".join(names)
        console.print(f"{label}: {line}", style=style, soft_wrap=True)
    if forecast.language.calls:
        most = forecast.most_language
        bound = "" if most is None else f"; {str(most).replace('about', 'at most', 1)}"
        console.print(f"language models, all trials: {forecast.language}{bound}", soft_wrap=True)
    if forecast.gpu_hours:
        cost = "" if price is None else f", {forecast.gpu_hours * price:,.0f} USD at {price:g}"
        console.print(
            f"GPU hours, all trials: about {forecast.gpu_hours:,.0f}{cost}", soft_wrap=True
        )
    _show_needs(forecast.needs, console)
    does = "run here" if config.launcher["name"] == "local" else "be submitted"
    if forecast.missing:
        console.print(f"{len(forecast.missing)} missing: it cannot {does}", style="red")
    else:
        console.print(f"nothing is missing: it can {does}", style="green")


def _used_settings(config: RunConfig) -> Settings:
    """Return the settings of a run without those that a frozen model makes no use of."""
    settings = config.resolved()
    arms = cast(dict[str, dict[str, Settings]], settings["arms"])
    frozen_arms = [name for name in arms if config.is_frozen(name)]
    used = [name for name in ENGINE_SETTINGS if config.seeds_from or name != "population_size"]
    for name in frozen_arms:
        arms[name]["engine"] = {setting: arms[name]["engine"][setting] for setting in used}
    if len(frozen_arms) == len(arms):
        del settings["evaluate_every"]
    return settings


def _time_of(arm: ArmForecast) -> list[tuple[str, str]]:
    """Return the duration of a trial, with the share of each part."""
    hours = sum(arm.hours.values())
    if not hours:
        return []
    parts = ", ".join(f"{name} {part / hours:.0%}" for name, part in arm.hours.items() if part)
    duration = f"{hours:,.1f} h" if hours >= 1 else f"{math.ceil(60 * hours)} min"
    gpu_hours = f", {arm.gpu_hours:,.0f} GPU hours" if arm.plan.gpus else ""
    return [("a trial", f"about {duration} ({parts}){gpu_hours}")]


def end_dry_run(plan: Plan) -> NoReturn:
    """Print the figures of a plan and unmet needs, and end the command accordingly."""
    console = Console(markup=False, highlight=False)
    for name, text in plan.figures:
        console.print(f"{name}: {text}", soft_wrap=True)
    _show_needs(plan.needs, console)
    raise typer.Exit(MISSING if any(need.missing for need in plan.needs) else 0)


def _show_needs(needs: Sequence[Need], console: Console) -> None:
    for need in needs:
        mark, color = ("missing", "red") if need.missing else ("ok", "green")
        remedy = f" -> {need.remedy}" if need.missing else ""
        line = Text.assemble(
            (f"{mark:8}", color), (f"{need.subject}: ", "bold"), need.text, (remedy, "cyan")
        )
        console.print(line, soft_wrap=True)
