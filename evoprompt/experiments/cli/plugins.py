"""``evoprompt plugins``: every component that a configuration can name, and its conformance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from evoprompt.experiments.cli.options import Changes

if TYPE_CHECKING:
    from rich.console import Console

    from evoprompt.plugins import Plugins, Registered


def plugins(
    check: Annotated[
        str | None, typer.Option(metavar="NAME", help="Run the conformance suite of one.")
    ] = None,
    changes: Changes = None,
) -> None:
    """List the components that a configuration can name.

    With --check, ask one whether it keeps the promises of its role.
    """
    from rich.console import Console

    from evoprompt.plugins import plugins as installed

    found, console = installed(), Console(markup=False, highlight=False)
    listed = found.components()
    if check is not None:
        named = [one for one in listed if one.name == check]
        if not _keep_promises(found, named, check, changes or (), console):
            raise typer.Exit(1)
        return
    _list(listed, console)
    for source in found.blocked:
        console.print(f"blocked: {source}", style="dim", soft_wrap=True)
    for problem in found.problems:
        console.print(f"not loaded: {problem}", style="red", soft_wrap=True)


def _list(listed: Sequence[Registered], console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    # What they share is a heading, so that most descriptions fit a line of 80 columns.
    groups: dict[tuple[str, str], list[Registered]] = {}
    for one in listed:
        origin = f"{one.source.distribution} {one.source.version}"
        groups.setdefault((one.component.role, origin), []).append(one)
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for (role, origin), members in groups.items():
        table.add_row(Text(role, style="bold"), Text(origin, style="dim"))
        for one in members:
            name = Text(f"  {one.name}", style="cyan")
            table.add_row(name, one.description)
    console.print(table)


def _keep_promises(
    found: Plugins,
    named: Sequence[Registered],
    name: str,
    overrides: Sequence[str],
    console: Console,
) -> bool:
    from rich.text import Text

    from evoprompt.errors import PluginError
    from evoprompt.experiments.settings import merge, nested
    from evoprompt.experiments.testing import SUITES
    from evoprompt.section import Settings
    from evoprompt.testing.checks import checking
    from evoprompt.validation import nearest

    if not named:
        names = sorted({one.name for one in found.components()})
        raise PluginError(
            f"no component is called {name!r}{nearest(name, names)}; required: one that "
            "`evoprompt plugins` lists"
            + "".join(f"; not loaded: {problem}" for problem in found.problems)
        )
    settings: Settings = {}
    for override in overrides:
        settings = merge(settings, nested(override))
    passed = True
    for one in named:
        console.print(f"{one.component.role} {name} ({one.source})", style="bold", soft_wrap=True)
        chosen = {**settings, "name": name}
        for result in checking(one.component.role, chosen, found, suites=SUITES):
            passed = passed and result.passed
            mark, style = ("ok  ", "green") if result.passed else ("FAIL", "red")
            detail = f": {result.detail}" if result.detail else ""
            line = Text.assemble("  ", (mark, style), f" {result.name}{detail}")
            console.print(line, soft_wrap=True)
    return passed
