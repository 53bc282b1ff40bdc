"""The processes of one server, as each of them sees the others."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Crew:
    """Counts the processes that have opened the index, by a file of each.

    Attributes:
        folder: shared by them.
        size: number of processes.
    """

    folder: Path
    size: int

    def join(self) -> None:
        """Tells that this process answers from now on."""
        (self.folder / f"{os.getpid()}.joined").touch()

    def joined(self) -> int:
        """Number of processes that have told, those that have died since and were replaced too.

        So a server that was ready once stays ready while a worker is replaced: the others answer.
        """
        return sum(1 for _ in self.folder.glob("*.joined"))

    def is_complete(self) -> bool:
        """Whether as many have told as there are."""
        return self.joined() >= self.size
