"""``evoprompt search-qa ...``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from evoprompt.agents.tasks import Plan
from evoprompt.errors import InputError
from evoprompt.experiments.cli.forecast import end_dry_run
from evoprompt.experiments.requirements import gpus
from evoprompt.storage import require_folder
from evoprompt.validation import nearest
from evoprompt_search_qa.data.commands import app as data_app
from evoprompt_search_qa.tiny.task import SHIPPED_POLICY

app = typer.Typer(
    name="search-qa",
    help="The search-QA example: its policy and its questions.",
    no_args_is_help=True,
)
app.add_typer(data_app)


@app.callback()
def group() -> None:
    """The search-QA example: its policy and its questions."""


@app.command()
def pretrain(
    output: Annotated[
        Path, typer.Option(help="Folder to write; by default the one shipped with the package.")
    ] = SHIPPED_POLICY,
    size: Annotated[
        str, typer.Option(help="tiny, the shipped one, or small, for small-gpu.yaml.")
    ] = "tiny",
    steps: Annotated[
        int | None, typer.Option(min=1, help="Optimizer steps.", show_default="by size")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seeds weights and demonstrations.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 1,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done and what is missing.")
    ] = False,
) -> None:
    """Train a policy from nothing on demonstrations (minutes; small needs a GPU)."""
    import torch
    from evoprompt_tiny.pretrain import save

    from evoprompt_search_qa.tiny.pretrain import SIZES
    from evoprompt_search_qa.tiny.pretrain import pretrain as run

    torch.set_num_threads(threads)
    if size not in SIZES:
        raise InputError(
            f"--size is {size!r}; required: one of {', '.join(SIZES)}{nearest(size, SIZES)}"
        )
    if size != "tiny" and output == SHIPPED_POLICY:
        raise InputError(
            f"--output is the folder of the shipped policy, which is tiny, not {size}; required: "
            "another folder, such as --output runs/small-policy"
        )
    require_folder(output, "--output")
    settings = replace(SIZES[size], seed=seed, steps=steps or SIZES[size].steps)
    if dry_run:
        what = f"{size}, {settings.steps:,} steps of {settings.batch} demonstrations"
        found = [gpus(1, None)] if device == "cuda" else []
        end_dry_run(Plan([("policy", what), ("folder", str(output))], found))
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("--device is cuda; required: a CUDA device; use --device cpu")
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

        policy, tokenizer, losses = run(settings, on_step, device)
    save(output, settings, policy, tokenizer, losses)
    typer.echo(f"wrote {output}")
