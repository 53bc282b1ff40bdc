"""Why rollouts left no score: agent loop workers note it, the process of the trainer tells it.

veRL logs what an agent loop raises in a worker's own log, which a run does not show.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from evoprompt.support.text import format_error


class Failures:
    """A file that every process of a training may add lines to.

    Args:
        path: the file, where all machines see it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, error: Exception) -> None:
        """Adds the reason in one line; a file that cannot be written hides no error."""
        with suppress(OSError), self._path.open("a", encoding="utf-8") as file:
            file.write(f"{format_error(error)}\n")

    def take(self) -> list[str]:
        """The reasons since the last time."""
        try:
            found = self._path.read_text(encoding="utf-8")
            self._path.unlink()
        except FileNotFoundError:
            return []
        return found.splitlines()
