"""Reasons of unscored rollouts: agent loop workers record them, the trainer's process reads them.

veRL logs the exceptions of an agent loop in a worker's own log, which a run does not show.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from evoprompt.support.text import format_error


class Failures:
    """File of reasons, to which every process of a training may add lines.

    Args:
        path: the file, in a folder that all machines share.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def record(self, error: Exception) -> None:
        """Add the reason in one line; a file that cannot be written hides no error."""
        with suppress(OSError), self._path.open("a", encoding="utf-8") as file:
            file.write(f"{format_error(error)}\n")

    def pop_reasons(self) -> list[str]:
        """Return the reasons since the last call, and remove them."""
        try:
            text = self._path.read_text(encoding="utf-8")
            self._path.unlink()
        except FileNotFoundError:
            return []
        return text.splitlines()
