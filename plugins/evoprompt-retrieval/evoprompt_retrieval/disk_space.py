"""Complete files of an index: a full disk is one line of error, and no partial file is opened."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import numpy as np
from pydantic import BaseModel, ValidationError

from evoprompt.support.errors import InputError, UnwritableError
from evoprompt.support.storage import write_whole

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Manifest(BaseModel, frozen=True, extra="forbid"):
    """Manifest of a part of an index; written last, so that it confirms the part's other files.

    Attributes:
        fingerprint: of the corpus file.
        source: name of that file.
        passages: number of passages.
        settings: of the part.
    """

    fingerprint: str
    source: str
    passages: int
    settings: dict[str, str | int | float] = {}

    @classmethod
    def load(cls, path: Path) -> Self | None:
        """Return the manifest at ``path``, or None if there is none.

        Raises:
            InputError: it cannot be read.
        """
        try:
            return cls.model_validate_json(path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except ValidationError as error:
            raise InputError(
                f"{path} is damaged or of another version ({error.errors()[0]['msg']}); delete "
                f"{path.parent} to build it anew"
            ) from error

    def save(self, path: Path) -> None:
        """Write the manifest, whole or not at all."""
        write_whole(path, self.model_dump_json(indent=2) + "\n")

    def require(self, expected: Manifest, path: Path) -> None:
        """Raise InputError if the files at ``path`` have another manifest than ``expected``."""
        if self != expected:
            raise InputError(
                f"{path.parent} holds another index ({self}); required: {expected}; name another "
                "folder with --index, or delete this one"
            )


def save_array(path: Path, array: np.ndarray) -> None:
    """Write an ``.npy`` file; numpy's ``save`` may silently lose its last bytes on a full disk."""
    described = np.lib.format.header_data_from_array_1_0(array)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, described)
        file.write(np.ascontiguousarray(array).data)


@contextmanager
def building(folder: Path) -> Iterator[None]:
    """Raise an error with a remedy if there is no room for the index that is built in ``folder``.

    Raises:
        UnwritableError: there was no room.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        free = shutil.disk_usage(folder).free / 2**30
        raise UnwritableError(
            f"the index in {folder} cannot be written: {os.strerror(error.errno)} ({free:,.1f} GiB "
            "are free there); required: the room that --dry-run names; make room or give --index "
            "on another disk, then give the same command again; nothing unfinished is searched"
        ) from error
