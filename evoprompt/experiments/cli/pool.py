"""``evoprompt pool``: a person's decisions about a training, while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from evoprompt.experiments.population import Trained
    from evoprompt.requests import Action

app = typer.Typer(name="pool", help="See and change the instructions of a training.")

Run = Annotated[
    Path, typer.Argument(help="A run, or the folder of a training's events.", metavar="RUN")
]
Arm = Annotated[str | None, typer.Option(help="Of this arm.")]
Seed = Annotated[int | None, typer.Option(help="Of this seed.")]
Id = Annotated[str, typer.Argument(help="Id of a candidate.", metavar="ID")]


@app.command("list")
def list_(run: Run, arm: Arm = None, seed: Seed = None) -> None:
    """List the living candidates, who waits for approval, and what was asked."""
    from evoprompt.text import printable

    trained = _open(run, arm, seed)
    history = trained.history()
    for entry in history.living:
        weight = "-" if entry.weight is None else f"{entry.weight:.3f}"
        first = printable(entry.components.get("instruction", "").partition("\n")[0])
        typer.echo(f"{entry.id}\t{weight}\t{entry.proposer}\t{first}")
    if history.statement:
        typer.echo(history.statement)
    for one in trained.requests.waiting():
        mean = "" if one.mean is None else f", verified {one.mean:.3f}"
        typer.echo(f"{one.id} waits for approval{mean}")
    outcomes = trained.outcomes()
    for request in trained.requests.everything():
        name, told = outcomes.get(request.id, (request.candidate, ""))
        when = "not taken up yet" if request.step is None else f"step {request.step}"
        asked = " ".join(filter(None, (request.action, name)))
        typer.echo(printable(f"asked: {asked} ({request.by}, {when}){told}"))


@app.command()
def show(run: Run, candidate: Id, arm: Arm = None, seed: Seed = None) -> None:
    """Print all texts of a candidate, alive or not, with its lineage."""
    from evoprompt.text import printable

    entry = _open(run, arm, seed).history().candidate(candidate)
    typer.echo(
        f"{entry.id}: {'alive' if entry.alive else 'not alive'}, born at step {entry.born} by "
        f"{entry.proposer}, from {', '.join(entry.parents) or 'nobody'}, weight {entry.weight}"
    )
    for text in (entry.rationale, entry.text):
        if text:
            typer.echo(f"\n{printable(text)}")


@app.command()
def add(
    run: Run,
    file: Annotated[Path, typer.Argument(help="Text file with an instruction.", metavar="FILE")],
    override: Annotated[
        bool, typer.Option("--override", help="Even if screening refuses it; it is logged.")
    ] = False,
    arm: Arm = None,
    seed: Seed = None,
) -> None:
    """Add an instruction of your own at the next step; screening judges it."""
    from evoprompt.experiments.instruction import read_instruction
    from evoprompt.types import INSTRUCTION

    trained = _open(run, arm, seed)
    trained.require_unfinished()
    texts = {INSTRUCTION: read_instruction(file)}
    _asked(trained.requests.ask("add", components=texts, override=override).id)


def _changes(action: Action, text: str) -> None:
    def change(run: Run, candidate: Id, arm: Arm = None, seed: Seed = None) -> None:
        trained = _open(run, arm, seed)
        trained.require_unfinished()
        trained.require_candidate(action, candidate)
        _asked(trained.requests.ask(action, candidate).id)

    change.__doc__ = text
    app.command(action)(change)


_changes("retire", "Take a candidate out of the population at the next step.")
_changes("pin", "Keep a candidate alive whatever it earns.")
_changes("unpin", "Let a pinned candidate live on its merits again.")
_changes("approve", "Admit a candidate that waits.")
_changes("refuse", "Turn a candidate away that waits.")


def _open(run: Path, arm: str | None, seed: int | None) -> Trained:
    from evoprompt.experiments.population import Trained

    return Trained.open(run, arm, seed)


def _asked(request: str) -> None:
    typer.echo(f"asked as {request}; taken up at the next step, or when the training goes on")
