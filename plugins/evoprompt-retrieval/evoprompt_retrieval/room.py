"""Files of an index take their room before they are filled, and a full disk is told in one line.

An array that is filled through a memory map would end the process by SIGBUS where the disk is full,
and numpy's ``save`` and ``tofile`` may lose their last bytes there unseen.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from evoprompt.errors import UnwritableError
from evoprompt.experiments.requirements import GIB

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def new_array(path: Path, dtype: type[np.generic], shape: tuple[int, ...]) -> np.memmap:
    """A new ``.npy`` file of zeros, memory-mapped, whose room is taken already.

    Raises:
        OSError: there is no room for it.
    """
    array: np.memmap = open_memmap(path, "w+", dtype, shape)
    if sys.platform == "linux":  # others have no such call
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return array


@contextmanager
def building(folder: Path) -> Iterator[None]:
    """Tells what to do when there is no room for the index that is built in ``folder``.

    Raises:
        UnwritableError: there was none.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        free = shutil.disk_usage(folder).free / GIB
        raise UnwritableError(
            f"the index in {folder} cannot be written: {os.strerror(error.errno)} ({free:,.1f} GiB "
            "are free there); required: the room that --dry-run names; make room or give --index "
            "on another disk, then give the same command again; nothing unfinished is searched"
        ) from error
