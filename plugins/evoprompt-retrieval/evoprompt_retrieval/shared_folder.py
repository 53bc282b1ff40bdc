"""A folder in memory for the processes of one server, removed when the last of them has ended.

Each process holds a lock on a file in it, which the system releases however the process ends. A
server that was killed cannot remove its folder; the next that starts on the machine does.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "evoprompt-retriever-"
_HELD, _BEGUN = "held", "held.begun"
_MEMORY = Path("/dev/shm")


@contextmanager
def shared_folder(memory: Path = _MEMORY) -> Iterator[Path]:
    """A new folder, in ``memory`` where that can be written: a full disk would end a worker."""
    where = memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
    remove_abandoned(where)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=where) as name:
        folder = Path(name)
        (folder / _BEGUN).touch()
        lock = hold(folder, _BEGUN)
        (folder / _BEGUN).rename(folder / _HELD)  # so that it is never there without a lock
        try:
            yield folder
        finally:
            os.close(lock)


def hold(folder: Path, name: str = _HELD) -> int:
    """Keeps ``folder`` until this process ends, or closes the descriptor that is returned."""
    lock = os.open(folder / name, os.O_RDONLY | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def remove_abandoned(where: Path) -> None:
    """Removes the folders in ``where`` whose processes have all ended; others' are left alone."""
    for folder in where.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another user's, or removed meanwhile
            lock = os.open(folder / _HELD, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            finally:
                os.close(lock)
