"""The table of candidates in TensorBoard: a text, which it renders as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from evoprompt.experiments.trackers.table import NAME, Row
from evoprompt.text import printable


class Writer(Protocol):
    """The part of torch's ``SummaryWriter`` in use."""

    def add_text(self, tag: str, text_string: str, global_step: int) -> None:
        """Writes Markdown under a tag."""
        ...

    def flush(self) -> None:
        """Writes what is pending."""
        ...


class TensorBoard:
    """Sends tables to a writer of event files.

    Args:
        writer: the trainer's own.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def show(self, rows: Sequence[Row], step: int) -> None:
        """Writes a table in Markdown."""
        head = [Row.columns(), ["---"] * len(Row.columns())]
        body = [[_cell(value) for value in row.cells()] for row in rows]
        text = "\n".join(f"| {' | '.join(line)} |" for line in [*head, *body])
        self._writer.add_text(NAME, text, step)
        self._writer.flush()


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    text = printable(str(value)).replace("&", "&amp;").replace("<", "&lt;")
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", "<br>")
