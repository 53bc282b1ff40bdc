"""``evoprompt pool``: decisions of the user about a training, while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evoprompt.experiments.cli.options import OfArm, OfSeed
from evoprompt.support.errors import InputError
from evoprompt.support.text import printable

if TYPE_CHECKING:
    from evoprompt.experiments.directory import RunDirectory, TrialId
    from evoprompt.hosting.requests import Action, RequestFiles

app = typer.Typer(name="pool", help="See and change the instructions of a training.")

Run = Annotated[
    Path, typer.Argument(help="A run, or the folder of a training's events.", metavar="RUN")
]
Id = Annotated[str, typer.Argument(help="Id of a candidate.", metavar="ID")]


@app.command("list")
def list_(run: Run, arm: OfArm = None, seed: OfSeed = None) -> None:
    """List the active candidates, those that wait for approval, and all requests."""
    from evoprompt.experiments.history import TrainingHistory
    from evoprompt.hosting.requests import RequestFiles

    log = _log(run, arm, seed)
    history, requests = TrainingHistory.read(log), RequestFiles(log)
    for entry in history.members:
        weight = "-" if entry.weight is None else f"{entry.weight:.3f}"
        first = printable(entry.components.get("instruction", "").partition("\n")[0])
        typer.echo(f"{entry.id}\t{weight}\t{entry.proposer}\t{first}")
    if history.statement:
        typer.echo(history.statement)
    for result in requests.waiting():
        mean = "" if result.mean is None else f", verified {result.mean:.3f}"
        typer.echo(f"{result.candidate.id} waits for approval{mean}")
    for request in requests.everything():
        name, outcome = request.candidate, ""
        if event := history.interventions.get(request.id):
            name, outcome = event["candidate"], ": done" if event["done"] else ": not done"
            outcome += f", {event['reason']}" if event["reason"] else ""
        when = "not handled yet" if request.step is None else f"step {request.step}"
        words = " ".join(filter(None, (request.action, name)))
        typer.echo(printable(f"request: {words} ({request.by}, {when}){outcome}"))


@app.command()
def show(run: Run, candidate: Id, arm: OfArm = None, seed: OfSeed = None) -> None:
    """Print all texts of a candidate, active or pruned, with its lineage."""
    from evoprompt.experiments.history import TrainingHistory

    entry = TrainingHistory.read(_log(run, arm, seed)).candidate(candidate)
    typer.echo(
        f"{entry.id}: {'active' if entry.is_member else 'not active'}, born at step {entry.born} "
        f"by {entry.proposer}, from {', '.join(entry.parents) or 'no parent'}, "
        f"weight {entry.weight}"
    )
    for text in (entry.rationale, entry.text):
        if text:
            typer.echo(f"\n{printable(text)}")


@app.command()
def add(
    run: Run,
    file: Annotated[Path, typer.Argument(help="Text file with an instruction.", metavar="FILE")],
    override: Annotated[
        bool, typer.Option("--override", help="Even if screening rejects it; it is logged.")
    ] = False,
    arm: OfArm = None,
    seed: OfSeed = None,
) -> None:
    """Add an instruction of your own at the next step; screening judges it."""
    from evoprompt.experiments.instruction import read_instruction
    from evoprompt.types import INSTRUCTION

    requests = _open(_log(run, arm, seed))
    texts = {INSTRUCTION: read_instruction(file)}
    _print_request(requests.ask("add", components=texts, override=override).id)


def _change(action: Action, text: str) -> None:
    def change(run: Run, candidate: Id, arm: OfArm = None, seed: OfSeed = None) -> None:
        log = _log(run, arm, seed)
        requests = _open(log)
        _require_candidate(log, requests, action, candidate)
        _print_request(requests.ask(action, candidate).id)

    change.__doc__ = text
    app.command(action)(change)


_change("retire", "Take a candidate out of the population at the next step.")
_change("pin", "Keep a candidate active, whatever its weight.")
_change("unpin", "Allow a pinned candidate to be pruned again.")
_change("approve", "Admit a candidate that waits.")
_change("refuse", "Refuse a candidate that waits.")


def _log(path: Path, arm: str | None, seed: int | None) -> Path:
    """Return the events of the training at ``path``, a run or the folder that holds them."""
    from evoprompt.experiments.directory import RunDirectory
    from evoprompt.experiments.history import LOGS, log_in

    if (path / "config.yaml").is_file():
        directory = RunDirectory.open(path)
        return directory.trial(_only(directory, arm, seed)).events
    log = log_in(path)
    if log is None:
        raise InputError(
            f"{path} holds no {' or '.join(LOGS)}; required: a run, or the log_dir of an "
            "attached training; check the path"
        )
    return log


def _only(directory: RunDirectory, arm: str | None, seed: int | None) -> TrialId:

    trials = [
        trial
        for trial in directory.trials()
        if arm in (None, trial.arm)
        and seed in (None, trial.seed)
        and directory.trial(trial).events.is_file()
    ]
    if arm is None and len(trials) > 1:  # usually, only one of the arms evolves
        evolving = [t for t in trials if directory.config.engine_of(t.arm).proposer is not None]
        trials = evolving or trials
    if len(trials) != 1:
        names = ", ".join(map(str, trials)) or "none"
        raise InputError(
            f"{directory.root} has these trainings: {names}; required: one; choose by --arm and "
            "--seed"
        )
    return trials[0]


def _open(log: Path) -> RequestFiles:
    """Return the files for requests to a training that has not ended."""
    from evoprompt.hosting.requests import RequestFiles

    if (log.parent / "result.json").is_file():
        raise InputError(
            f"the training of {log.parent} has finished, and accepts no changes; required: "
            "one that runs or was stopped; start another with --seeds-from"
        )
    return RequestFiles(log)


def _require_candidate(log: Path, requests: RequestFiles, action: Action, name: str) -> None:
    from evoprompt.experiments.history import TrainingHistory

    if action not in ("approve", "refuse"):
        if not TrainingHistory.read(log).candidate(name).is_member:
            raise InputError(f"{name} is not active; required: an active candidate; see pool list")
        return
    waiting = [result.candidate.id for result in requests.waiting()]
    if name not in waiting:
        raise InputError(
            f"{name} does not wait for approval; waiting: {', '.join(waiting) or 'none'}; "
            "required: engine.approve: ask, and a candidate that pool list shows as waiting"
        )


def _print_request(request: str) -> None:
    typer.echo(f"request {request}; handled at the next step, or when the training goes on")
