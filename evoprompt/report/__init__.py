"""The pictures and the page of a run, drawn from its events and its summary."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evoprompt.errors import InputError

if TYPE_CHECKING:
    from evoprompt.runs.directory import RunDirectory


def write_report(directory: RunDirectory) -> list[Path]:
    """Writes ``report.html`` and ``report.png`` beside the run's events and returns their paths.

    Raises:
        InputError: nothing has happened in the run yet.
        ModuleNotFoundError: matplotlib or jinja2 is missing; the extra ``report`` brings them.
    """
    # matplotlib is slow to import, and only needed here.
    from evoprompt.checkpoint import write_whole
    from evoprompt.report.history import read_histories
    from evoprompt.report.page import render_page
    from evoprompt.report.pictures import overview
    from evoprompt.report.style import arm_styles, style
    from evoprompt.runs.eventfile import read_events
    from evoprompt.runs.summary import Summary

    histories = read_histories(read_events(directory.events))
    if not histories:
        raise InputError(
            f"{directory.root} holds no events yet; required: a run that has begun; wait, or "
            f"continue it: evoprompt run {directory.root} --resume"
        )
    config = directory.config
    styles = arm_styles([arm for arm in config.arms if any(h.arm == arm for h in histories)])
    title = f"{config.task['name']} on {config.host['name']}, {config.budget:,} rollouts per trial"
    picture, page = directory.root / "report.png", directory.root / "report.html"
    with style():
        overview(histories, styles, title, config.target).savefig(picture, dpi=130)
        write_whole(
            page,
            render_page(directory, Summary.read(directory.summary), histories, styles, title),
        )
    return [page, picture]
