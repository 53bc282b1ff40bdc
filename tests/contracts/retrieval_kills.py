"""Builds a BM25 index by the command line, in a process that may be killed or have no room."""

from __future__ import annotations

from pathlib import Path

from faults import WORK

from evoprompt.experiments.cli import main as evoprompt

CORPUS = "corpus.jsonl.gz"
"""In the directory of a job; compressed, so that its passages are copied into the index."""


def main(directory: Path) -> None:
    """Builds it."""
    where = ["--corpus", str(directory / CORPUS), "--index", str(directory / WORK / "index")]
    try:
        evoprompt(["retriever", "build", *where])
    except SystemExit as ended:
        if ended.code:
            raise
