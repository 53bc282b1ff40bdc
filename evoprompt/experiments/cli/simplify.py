"""``evoprompt simplify``: prints the shortest instruction of equal value."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from evoprompt.experiments.cli.options import Changes, OfArm, OfSeed
from evoprompt.support.errors import InputError
from evoprompt.support.text import printable


def simplify(
    source: Annotated[
        Path,
        typer.Argument(help="Output of a run, one of its trials, or a YAML file.", metavar="RUN"),
    ],
    instruction: Annotated[
        Path | None, typer.Option(help="File with another instruction.", show_default="the best")
    ] = None,
    split: Annotated[str, typer.Option(help="Split of the questions.")] = "validation",
    delta: Annotated[
        float, typer.Option(help="Most that may be lost, as a share of the range of rewards.")
    ] = 0.02,
    arm: OfArm = None,
    seed: OfSeed = None,
    changes: Changes = None,
) -> None:
    """Leave out of an instruction what the policy does not need.

    One sentence after another, then one clause after another, is left out where greedy answers of
    the trained policy show that no more than delta is lost. What a task requires stays. Prints the
    text alone on standard output.
    """
    from evoprompt.experiments.evaluate import instruction_of, rewards_of, subject_of, task_of
    from evoprompt.experiments.instruction import read_instruction
    from evoprompt.experiments.shortening import simplify as simplified
    from evoprompt.types import Candidate

    subject = subject_of(source, changes or (), arm, seed)
    if instruction is not None:
        subject = replace(subject, instruction=read_instruction(instruction))
    task = task_of(subject)
    texts = instruction_of(subject, task)
    candidate = Candidate.of(texts)
    if len(candidate.components) > 1:
        raise InputError(
            f"the instruction has the components {', '.join(candidate.components)}; required: one "
            "text; give it with --instruction FILE, or call "
            "evoprompt.experiments.shortening.simplify for each"
        )
    with redirect_stdout(sys.stderr), rewards_of(subject, task, split) as score:
        questions = task.questions(split)
        shortened = simplified(
            candidate.text, questions, score, delta=delta, required=list(task.required)
        )
    for piece in shortened.left_out:
        typer.echo(f"left out: {printable(piece)}", err=True)
    words = f"{len(shortened.text.split())} of {len(candidate.text.split())} words"
    lead = f"{shortened.lead.value:+.3f} ± {shortened.lead.stderr:.3f}"
    typer.echo(f"{words}, {lead} on {split} questions, {shortened.rollouts:,} rollouts", err=True)
    typer.echo(shortened.text)
