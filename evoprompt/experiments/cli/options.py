"""Options that several commands have."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

OfArm = Annotated[str | None, typer.Option("--arm", help="Only of this arm.")]
OfSeed = Annotated[int | None, typer.Option("--seed", help="Only of this seed.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; repeatable."),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", show_default="runs/NAME", help="Directory to write to."),
]
FirstSeed = Annotated[int | None, typer.Option("--seed", help="First, or only, seed.")]
Seeds = Annotated[int | None, typer.Option(help="Number of seeds.")]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs", "-j", min=1, show_default="1 on this machine, else all", help="Trials at a time."
    ),
]
SeedsFrom = Annotated[
    Path | None,
    typer.Option(
        metavar="RUN",
        help="Start from the active instructions of this run, trial, optimization or log_dir.",
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue a stopped run.")]
ApiKeyEnv = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Environment variable that holds the key of the server at --base-url.",
        show_default="OPENAI_API_KEY at OpenAI's address, else no key",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the work, the cost and unmet needs of the run.")
]


def with_seeds_from(overrides: Sequence[str] | None, seeds_from: Path | None) -> list[str]:
    """Return the overrides, together with that of ``--seeds-from``."""
    all_overrides = list(overrides or ())
    if seeds_from is not None:
        all_overrides.append(f"seeds_from={json.dumps(str(seeds_from))}")
    return all_overrides
