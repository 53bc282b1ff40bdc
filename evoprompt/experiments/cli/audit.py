"""``evoprompt audit``: what to look at before an instruction is deployed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def audit(
    source: Annotated[
        Path,
        typer.Argument(help="A run, a checkpoint, an export, or a text file.", metavar="RUN|FILE"),
    ],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List what in living instructions looks like something to keep out, with the evidence.

    Leaked answers, refusals, injected commands, identities, unsafe tool use. Exit code 1 when
    something was found, 0 when nothing was.
    """
    from evoprompt.experiments.audit import audit as judged
    from evoprompt.text import printable

    found = judged(source)
    if json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        for one in found.findings:
            line = f"{one.where} [{one.component}] {one.rule}: {one.evidence}"
            typer.echo(printable(line))
        typer.echo(f"{found.looked_at} texts, {len(found.findings)} findings")
    for missing in found.not_looked_for:
        typer.echo(printable(f"not looked for: {missing}"), err=True)
    if found.findings:
        raise typer.Exit(1)
