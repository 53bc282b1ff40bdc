"""``evoprompt plugins``: every component that a configuration can name, and its conformance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from evoprompt.experiments.cli.options import Changes
from evoprompt.support.errors import PluginError

if TYPE_CHECKING:
    from rich.console import Console

    from evoprompt.plugins import Plugins, Registered


def plugins(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Show the settings of a component.")
    ] = None,
    check: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Run the conformance suite of a component, or of all those of a distribution.",
        ),
    ] = None,
    changes: Changes = None,
) -> None:
    """List the components that a configuration can name.

    With a NAME, show its settings. With --check, test a component against the requirements of its
    role.
    """
    from rich.console import Console

    from evoprompt.plugins import plugins as installed

    registry, console = installed(), Console(markup=False, highlight=False)
    listed = registry.components()
    if name is not None:
        for component in _components_named(name, registry):
            _print_settings(component, console)
        return
    if check is not None:
        if not _run_suites(registry, _components_named(check, registry), changes or (), console):
            raise typer.Exit(1)
        return
    _list(listed, console)
    for source in registry.blocked:
        console.print(f"blocked: {source}", style="dim", soft_wrap=True)
    for problem in registry.problems:
        console.print(f"not loaded: {problem}", style="red", soft_wrap=True)


def _list(listed: Sequence[Registered], console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    # Common parts are a heading, so that most descriptions fit a line of 80 columns.
    groups: dict[tuple[str, str], list[Registered]] = {}
    for component in listed:
        origin = f"{component.source.distribution} {component.source.version}"
        groups.setdefault((component.component.role, origin), []).append(component)
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for (role, origin), members in groups.items():
        table.add_row(Text(role, style="bold"), Text(origin, style="dim"))
        for member in members:
            name = Text(f"  {member.name}", style="cyan")
            table.add_row(name, member.description)
    console.print(table)


def _components_named(name: str, registry: Plugins) -> list[Registered]:
    """Return the components of a name, one for each role that has it.

    Without a component of this name, return all components of the plugin or distribution that has
    it.

    Raises:
        PluginError: there is neither.
    """
    from evoprompt.support.validation import nearest

    named = [component for component in registry.components() if component.name == name]
    if not named:
        named = [
            component for component in registry.components() if component.source.answers_to((name,))
        ]
    if not named:
        components = registry.components()
        distributions = {component.source.distribution for component in components}
        names = sorted({component.name for component in components} | distributions)
        raise PluginError(
            f"no component is called {name!r}{nearest(name, names)}; required: one that "
            "`evoprompt plugins` lists, or the distribution of some"
            + "".join(f"; not loaded: {problem}" for problem in registry.problems)
        )
    return named


def _print_settings(component: Registered, console: Console) -> None:
    """Print the settings of a component, as in docs/settings.md."""
    from rich.table import Table
    from rich.text import Text

    from evoprompt.experiments.settings_table import inner, rows
    from evoprompt.plugins import SharedSettings

    console.print(
        f"{component.component.role} {component.name} ({component.source})",
        style="bold",
        soft_wrap=True,
    )
    console.print(component.description)
    tables = {"": component.component.Settings, **dict(inner(component.component.Settings))}
    if component.component.role == "proposer":
        tables["every proposer"] = SharedSettings
    for title, model in tables.items():
        table = Table("setting", "type", "default", "what it does", box=None, padding=(0, 2, 0, 0))
        for row in rows(model):
            cells = (row.kind, row.default, row.purpose)
            plain = (Text(cell.replace("`", "")) for cell in cells)
            table.add_row(Text(row.name, style="cyan"), *plain)
        if table.row_count:
            console.print(f"\n{title}".rstrip(), style="bold")
            console.print(table)


def _run_suites(
    registry: Plugins,
    named: Sequence[Registered],
    overrides: Sequence[str],
    console: Console,
) -> bool:
    from rich.text import Text

    from evoprompt.experiments.settings import merge, nested
    from evoprompt.experiments.testing import SUITES
    from evoprompt.hosting.section import Settings
    from evoprompt.testing.checks import checking

    settings: Settings = {}
    for override in overrides:
        settings = merge(settings, nested(override))
    passed = True
    for component in named:
        console.print(
            f"{component.component.role} {component.name} ({component.source})",
            style="bold",
            soft_wrap=True,
        )
        chosen = {**settings, "name": component.name}
        for result in checking(component.component.role, chosen, registry, suites=SUITES):
            passed = passed and result.passed
            mark, style = ("ok  ", "green") if result.passed else ("FAIL", "red")
            detail = f": {result.detail}" if result.detail else ""
            line = Text.assemble("  ", (mark, style), f" {result.name}{detail}")
            console.print(line, soft_wrap=True)
    return passed
