"""``evoprompt search-qa ...``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from evoprompt_search_qa.task import SHIPPED_POLICY

app = typer.Typer(name="search-qa", help="The search-QA example: its policy.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """The search-QA example: its policy."""


@app.command()
def pretrain(
    output: Annotated[
        Path, typer.Option(help="Folder to write; by default the one shipped with the package.")
    ] = SHIPPED_POLICY,
    steps: Annotated[int | None, typer.Option(min=1, help="Optimizer steps.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seeds weights and demonstrations.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 1,
) -> None:
    """Train the tiny policy from nothing on demonstrations (minutes)."""
    import torch

    from evoprompt_search_qa.pretrain import Pretraining, save
    from evoprompt_search_qa.pretrain import pretrain as run

    torch.set_num_threads(threads)
    settings = Pretraining(seed=seed, **({} if steps is None else {"steps": steps}))
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as progress:
        bar = progress.add_task("loss", total=settings.steps)

        def on_step(step: int, loss: float) -> None:
            progress.update(bar, completed=step, description=f"loss {loss:.3f}")

        policy, tokenizer, losses = run(settings, on_step)
    save(output, settings, policy, tokenizer, losses)
    typer.echo(f"wrote {output}")
