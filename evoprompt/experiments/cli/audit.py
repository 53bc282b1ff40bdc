"""``evoprompt audit``: screening from the command line, before an instruction is deployed."""

from __future__ import annotations

import json as json_
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from evoprompt.types import Question

Texts = list[tuple[str, str, str]]
"""Where a text stands (trial and candidate, or file), the name of the component, and the text."""


def audit(
    source: Annotated[
        Path,
        typer.Argument(help="A run, a checkpoint, an export, or a text file.", metavar="RUN|FILE"),
    ],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List what in living instructions looks like something to keep out, with the evidence.

    Leaked answers, refusals, control characters, talk to the grader: the rules of screening. Exit
    code 1 when something was found, 0 when nothing was.
    """
    from evoprompt.rules import ScreeningContext, default_rules
    from evoprompt.screening import check
    from evoprompt.text import printable
    from evoprompt.types import Proposal

    texts, questions = _read(source)
    answers = [answer for question in questions for answer in question.answers]
    context = ScreeningContext(questions=[one.text for one in questions], answers=answers)
    found = [
        {"where": where, "component": name, "rule": finding.rule, "evidence": finding.reason}
        for where, name, text in texts
        for rule in default_rules()
        if (finding := check(Proposal.of(text), context, [rule]))
    ]
    missing = []
    if not questions:
        missing.append(f"leaks: no questions are known of {source}")
    elif not answers:
        missing.append(f"leaks: the questions of {source} have none; copied ones were")
    if json:
        told = {"looked_at": len(texts), "not_looked_for": missing, "findings": found}
        typer.echo(json_.dumps(told, indent=2, ensure_ascii=False))
    else:
        for one in found:
            typer.echo(printable("{where} [{component}] {rule}: {evidence}".format(**one)))
        typer.echo(f"{len(texts)} texts, {len(found)} findings")
    for line in missing:
        typer.echo(printable(f"not looked for: {line}"), err=True)
    if found:
        raise typer.Exit(1)


def _read(path: Path) -> tuple[Texts, Sequence[Question]]:
    """The texts to judge, and the questions of the training: the task's, or those remembered."""
    from contextlib import suppress

    from evoprompt.agents.recipe import Recipe
    from evoprompt.errors import InputError
    from evoprompt.experiments.export.source import checkpoint_of, saved_under
    from evoprompt.experiments.history import log_in
    from evoprompt.experiments.instruction import read_instruction
    from evoprompt.experiments.past_failures import remembered
    from evoprompt.experiments.pool import read_pool
    from evoprompt.storage import STATE_FILE

    if path.is_file():
        return [(str(path), "instruction", read_instruction(path))], ()
    if (path / "config.yaml").is_file():
        return _of_run(path)
    if log := log_in(path):
        texts = _texts(path.name, _living(log))
        states = [one / STATE_FILE for one in saved_under(path)] + [path / STATE_FILE]
    else:
        folder = checkpoint_of(path)
        recipe = Recipe.read(folder)
        living = {recipe.candidate: recipe.components}
        if (folder / STATE_FILE).is_file():
            with suppress(InputError):  # of components of somebody's own, which are not here
                living = {one.origin: one.components for one in read_pool(folder)}
        texts = _texts(path.name, living)
        states = [folder / STATE_FILE, folder.parent / STATE_FILE]
    state = next((file for file in reversed(states) if file.is_file()), None)
    return texts, [one.question for one in remembered(state).records] if state else ()


def _of_run(root: Path) -> tuple[Texts, Sequence[Question]]:
    from evoprompt.errors import InputError
    from evoprompt.experiments.directory import RunDirectory
    from evoprompt.plugins import build, plugins

    directory = RunDirectory.open(root)
    texts = [
        text
        for trial in directory.trials()
        for text in _texts(str(trial), _living(directory.trial(trial).events))
    ]
    if not texts:
        raise InputError(f"{root} has no instructions yet; required: a run that began")
    plugins().block(directory.config.block_plugins)
    return texts, build("task", directory.config.task).questions("train")


def _living(log: Path) -> Mapping[str, Mapping[str, str]]:
    from evoprompt.experiments.history import History

    return {entry.id: entry.components for entry in History.read(log).living}


def _texts(where: str, living: Mapping[str, Mapping[str, str]]) -> Texts:
    return [
        (f"{where} {candidate}", name, text)
        for candidate, components in living.items()
        for name, text in components.items()
    ]
