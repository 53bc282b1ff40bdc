"""Shows what a run would do and need: ``evoprompt run --dry-run``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NoReturn, cast

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from evoprompt import yamlfile
from evoprompt.agents.tasks import Need, Plan
from evoprompt.experiments.check import ArmForecast, Forecast
from evoprompt.experiments.config import RunConfig
from evoprompt.section import Settings

MISSING = 3
"""Exit code of a dry run that found something missing on this machine."""


def show_forecast(config: RunConfig, found: Forecast, console: Console) -> None:
    """Prints the settings in use, the arms, the figures of the task and what is missing.

    Args:
        config: the run.
        found: what it is going to do.
        console: takes the text.
    """
    console.print(yamlfile.dump(_once(config.shown())).rstrip(), soft_wrap=True)
    console.print(_arms(found))
    console.print(_total(found), soft_wrap=True)
    notices: dict[str, list[str]] = {}
    for arm in found.arms:
        for notice in arm.notices:
            notices.setdefault(notice, []).append(arm.arm)
    for notice, arms in notices.items():
        console.print(f"{', '.join(arms)}: {notice}", style="yellow", soft_wrap=True)
    for names, figures in _figures(found).items():
        console.print(f"\n{names}:", style="bold")
        for name, text in figures:
            console.print(f"  {name}: {text}", soft_wrap=True)
    if found.language.calls:
        console.print(f"\nlanguage models, all trials: {found.language}", soft_wrap=True)
    console.print()
    later = [need for need in found.needs if need.missing and need not in found.missing]
    _show_needs([need for need in found.needs if need not in later], console)
    for need in later:
        line = f"later   {need.subject}: {need.text} here; looked for again where the trials run"
        console.print(line, style="yellow", soft_wrap=True)
    does = "be submitted" if found.elsewhere else "run here"
    if found.missing:
        console.print(f"{len(found.missing)} missing: it cannot {does}", style="red")
    else:
        console.print(f"nothing is missing: it can {does}", style="green")


def end_dry_run(plan: Plan) -> NoReturn:
    """Prints the figures of one plan and what is missing, and ends the command accordingly."""
    console = Console(markup=False, highlight=False)
    for name, text in plan.figures:
        console.print(f"{name}: {text}", soft_wrap=True)
    _show_needs(plan.needs, console)
    raise typer.Exit(MISSING if any(need.missing for need in plan.needs) else 0)


def _show_needs(needs: Sequence[Need], console: Console) -> None:
    for need in needs:
        mark = ("missing", "red") if need.missing else ("ok", "green")
        remedy = f" -> {need.remedy}" if need.missing else ""
        line = Text.assemble(
            (f"{mark[0]:8}", mark[1]), (f"{need.subject}: ", "bold"), need.text, (remedy, "cyan")
        )
        console.print(line, soft_wrap=True)


def _once(settings: Settings) -> Settings:
    """The settings of a run with what all its arms have in common said once, above them."""
    arms = cast(dict[str, Settings], settings["arms"])
    common = reduce(_common, arms.values())
    told: Settings = {}
    for key, value in settings.items():
        if key == "arms":
            told |= {name: common[name] for name in ("host", "engine") if name in common}
            value = {name: _without(arm, common) for name, arm in arms.items()}
        told[key] = value
    return told


def _common(one: Settings, other: Settings) -> Settings:
    found: Settings = {}
    for key, value in one.items():
        against = other.get(key)
        if isinstance(value, dict) and isinstance(against, dict):
            found[key] = _common(value, against)
        elif key in other and value == against:
            found[key] = value
    return found


def _without(settings: Settings, common: Settings) -> Settings:
    own: Settings = {}
    for key, value in settings.items():
        shared = common.get(key)
        if isinstance(value, dict) and isinstance(shared, dict) and value != shared:
            own[key] = _without(value, shared)
        elif key not in common or value != shared:
            own[key] = value
    return own


def _total(found: Forecast) -> str:
    arms, seeds = len(found.arms), found.seeds
    parts = [
        f"{arms} {'arm' if arms == 1 else 'arms'} x {seeds} {'seed' if seeds == 1 else 'seeds'}"
    ]
    trials = f"{found.trials:,} {'trial' if found.trials == 1 else 'trials'}"
    return f"{trials} ({' + '.join(parts)}), at most {found.rollouts:,} rollouts in all"


def _arms(found: Forecast) -> Table:
    asked = "proposer's LM calls"
    table = Table("arm", "trials", "rollouts each", "generations", "verification", asked)
    for arm in found.arms:
        table.add_row(
            arm.arm,
            str(found.seeds),
            f"{arm.budget:,}",
            f"at most {arm.generations:,}" if arm.generations else "none",
            f"at most {arm.verification:,} a round" if arm.verification else "none",
            str(arm.language.calls) if arm.generations != 0 else "none",
        )
    return table


def _figures(found: Forecast) -> dict[str, tuple[tuple[str, str], ...]]:
    """The figures of the plans, by the names of the arms that share them."""
    shared: dict[tuple[tuple[str, str], ...], list[ArmForecast]] = {}
    for arm in found.arms:
        if arm.plan.figures:
            shared.setdefault(tuple(arm.plan.figures), []).append(arm)
    return {", ".join(arm.arm for arm in arms): figures for figures, arms in shared.items()}
