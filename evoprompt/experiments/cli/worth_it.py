"""``evoprompt worth-it``: whether instructions are worth evolving, before a training."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from evoprompt.experiments.cli.options import Changes, FirstSeed


def worth_it(
    config: Annotated[Path, typer.Argument(help="A YAML file.", metavar="CONFIG")],
    texts: Annotated[
        Path | None,
        typer.Option(help="File with instructions, a blank line between them, to try instead."),
    ] = None,
    rollouts: Annotated[int, typer.Option(min=24, help="To spend on it.")] = 960,
    arm: Annotated[
        str | None, typer.Option(help="Whose host and proposer.", show_default="the last one")
    ] = None,
    seed: FirstSeed = None,
    changes: Changes = None,
) -> None:
    """Say whether instructions are worth evolving here, before a training.

    A dozen instructions, those of the configuration and what its proposer writes, answer training
    questions in the trainer, sampled as in a training; the policy stays as it is. Prints how far
    they differ beyond chance, how many groups have something to learn from, what there is to gain
    and the rollouts that it takes to see it. Exit code 0 for every answer.
    """
    from rich.console import Console

    from evoprompt.experiments.config import load
    from evoprompt.experiments.directory import TrialId
    from evoprompt.experiments.instruction import read_instruction
    from evoprompt.experiments.outlook import outlook
    from evoprompt.text import printable

    read = load(config, changes or ())
    chosen = arm or list(read.arms)[-1]
    read = read.narrowed([chosen], seed)
    given = [] if texts is None else read_instruction(texts).split("\n\n")
    with redirect_stdout(sys.stderr):
        found = outlook(read, TrialId(chosen, read.seeds[0]), rollouts, given)
    console = Console(markup=False, highlight=False)
    ranked = sorted(zip(found.weights, found.stderrs, found.texts, strict=True), reverse=True)
    for weight, stderr, text in ranked:
        mark = " (first)" if text == found.texts[0] else ""
        console.print(f"{weight:.3f} ± {stderr:.3f}{mark}  {printable(text)}", soft_wrap=True)
    console.print(f"spread beyond chance: {found.spread:.3f}")
    console.print(f"groups with rewards that differ: {found.signal:.0%}")
    console.print(f"left to gain for the first instruction: {found.headroom:.3f}")
    console.print(f"rollouts spent: {found.rollouts:,}")
    console.print(found.verdict, style="bold", soft_wrap=True)
