"""Files written whole or not at all, and checkpoints that are complete or known not to be.

A checkpoint is a folder in which a trainer writes its weights and we the engine's state
(``Engine.state_dict``: what a resume restores). The state is written before everything else, under
a name that says that the rest is missing, and renamed to ``evoprompt_state.json`` when all is
there. So a folder with that file is complete, and one with :data:`BEGUN_FILE` alone is what a kill
or a full disk left of a save.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from stat import S_ISDIR
from typing import BinaryIO

from filelock import FileLock, Timeout
from pydantic import BaseModel, JsonValue

from evoprompt.support.errors import InputError, StateError, warn

STATE_FILE = "evoprompt_state.json"
"""Name of the engine's file in a complete checkpoint."""

RECIPE_FILE = "evoprompt.json"
"""Name of the file that says how the policy is asked, in a checkpoint and in an export."""

BEGUN_FILE = "evoprompt_state.begun.json"
"""Its name while the checkpoint is being written."""

_REMOVED = "removed-"
_SENTINEL = "checkpoint-is-incomplete.txt"  # transformers', before a save on SIGTERM


class SavedRecord(BaseModel):
    """A record that is part of an engine's state, and goes on changing."""

    def state_dict(self) -> dict[str, JsonValue]:
        """Its fields, as JSON values."""
        return self.model_dump(mode="json")

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Takes over what ``state`` holds; a missing or wrong field is a ValueError.

        Raises:
            LookupError: a field is missing.
            ValueError: one is of a wrong type.
        """
        names = type(self).model_fields
        found = type(self).model_validate({name: state[name] for name in names})
        for name in names:
            setattr(self, name, getattr(found, name))


def unwritable(path: Path, folder: bool) -> str:
    """Why ``path`` can be no folder, or no file, to write; empty if it may. Makes nothing."""
    try:
        is_folder = S_ISDIR(path.stat().st_mode)
    except FileNotFoundError:
        return "it is a link that leads nowhere" if folder and path.is_symlink() else ""
    except OSError as error:
        return str(error.strerror)
    if is_folder == folder:
        return ""
    return "it is a folder" if is_folder else "it is a file"


def require_folder(path: Path, setting: str) -> None:
    """Makes sure that ``path`` may be written as a folder; to be asked before what takes long.

    Raises:
        InputError: it cannot be one.
    """
    if why := unwritable(path, folder=True):
        raise InputError(f"{setting} is {path} ({why}); required: a folder to write; name another")


LOCK = "writer.lock"
"""Name of the lock in a folder that one process writes; it stays there when nobody holds it."""


@contextmanager
def only_writer(
    folder: Path, what: str, wait: float = 0.0, waiting: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Keeps ``folder`` for this process while inside, on a file system that others share, too.

    The lock is the kernel's: it is free as soon as its process has ended, however that came.

    Args:
        folder: made if it is missing.
        what: is worked at there, for the message.
        wait: seconds to wait for another process to end.
        waiting: called before that.

    Raises:
        InputError: another process is at work there, or nothing can be written there.
    """
    lock = FileLock(folder / LOCK, thread_local=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if not wait:
                raise
            waiting()
            lock.acquire(timeout=wait)
    except Timeout:
        raise InputError(
            f"another process is at work in {folder} ({what}); required: one at a time; wait for "
            "it or stop it"
        ) from None
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written to: {error.strerror}; required: a folder with room and "
            "the right to write; name another"
        ) from error
    try:
        yield
    finally:
        lock.release()


def write_whole(path: Path, text: str) -> None:
    """Replaces the file ``path`` by ``text``; a crash leaves the old file or the new one.

    Makes the folder if it is missing. Lone surrogates, which UTF-8 cannot carry, are written as
    JSON escapes them.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # The same name every time, so that what a kill leaves is overwritten by the next write.
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def is_temporary(file: Path) -> bool:
    """Whether ``file`` is what a kill leaves of :func:`write_whole`."""
    return file.name.startswith(".") and file.suffix == ".tmp"


class LineFile:
    """A file to which lines are appended; a last one that a kill or a full disk cut short is none.

    Such a rest is left out when the file is read, and overwritten by the next line. A line that
    was appended is in the file whatever becomes of the process; not of the machine. Others may
    append to it too, one at a time.

    Args:
        path: created, with its folder, when the first line comes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = 0  # of the lines that are known

    def __iter__(self) -> Iterator[bytes]:
        """The whole lines with their ends."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield line

    def news(self) -> list[bytes]:
        """The whole lines, without their ends, that were not appended here or returned before."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            return self._news(file)

    def _news(self, file: BinaryIO) -> list[bytes]:
        file.seek(self._size)
        written = file.read()
        whole = written[: written.rfind(b"\n") + 1]
        self._size += len(whole)
        return whole.split(b"\n")[:-1]

    def append(self, line: bytes) -> None:
        """Adds ``line``, which has its end.

        Raises:
            OSError: it could not be written; the file is as it was, but for a rest.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab+", buffering=0) as file:
            if file.tell() > self._size:
                self._news(file)
                file.truncate(self._size)
            written = file.write(line)
            while written < len(line):  # a full disk takes a part of it, and then nothing
                written += file.write(line[written:])
        self._size += len(line)

    def fingerprint(self, count: int) -> str:
        """The same for two files whose first ``count`` lines are the same."""
        found = hashlib.blake2b(digest_size=16)
        for line in islice(self, count):
            found.update(line)
        return found.hexdigest()

    def keep(self, count: int) -> None:
        """Drops all but the first ``count`` lines."""
        self._size = sum(map(len, islice(self, count)))
        os.truncate(self._path, self._size)


def save_state(path: Path, state: Mapping[str, JsonValue]) -> None:
    """Writes ``state`` to ``path``, whole or not at all.

    Raises:
        ValueError: the state holds a NaN or an infinity; an earlier file stays as it was.
    """
    write_whole(path, json.dumps(state, ensure_ascii=False, allow_nan=False))


def load_state(path: Path) -> dict[str, JsonValue]:
    """The state in ``path``.

    Raises:
        StateError: the file is missing, not a JSON object, or holds a NaN or an infinity.
    """
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        json.dumps(state, allow_nan=False)
    except OSError as error:
        raise StateError(
            f"no engine state can be read from {path}: {error.strerror}; required: the file "
            "written at a checkpoint; check the path"
        ) from error
    except (ValueError, RecursionError) as error:
        raise StateError(
            f"{path} does not hold an engine state: {error}; required: the JSON file written at a "
            "checkpoint; resume from an older checkpoint or start afresh"
        ) from error
    if not isinstance(state, dict):
        raise StateError(
            f"{path} holds a {type(state).__name__}; required: a JSON object; resume from an "
            "older checkpoint or start afresh"
        )
    return state


@contextmanager
def saving(folder: Path, state: Mapping[str, JsonValue]) -> Iterator[None]:
    """Writes ``state`` into ``folder``, which is complete when the body has written the rest.

    If the body raises, or the process dies, the folder stays behind as half a checkpoint.
    """
    save_state(folder / BEGUN_FILE, state)
    (folder / STATE_FILE).unlink(missing_ok=True)  # the folder may be written for a second time
    yield
    (folder / BEGUN_FILE).replace(folder / STATE_FILE)


def is_half(folder: Path) -> bool:
    """Whether ``folder`` is what was left when a save did not come to its end."""
    if (folder / STATE_FILE).exists():
        return False
    if (folder / BEGUN_FILE).exists():
        return True
    return all(is_temporary(file) or file.name == _SENTINEL for file in folder.iterdir())


def checkpoints(directory: Path, prefix: str) -> list[Path]:
    """The folders ``PREFIX<number>`` in ``directory``, by their number; whole, half or others'."""
    if not directory.is_dir():
        return []
    named = [
        (int(match[1]), folder)
        for folder in directory.iterdir()
        if (match := re.fullmatch(re.escape(prefix) + r"(\d+)", folder.name)) and folder.is_dir()
    ]
    return [folder for _, folder in sorted(named)]


def mend(directory: Path, prefix: str) -> list[Path]:
    """Removes from ``directory`` the checkpoints that are not complete, and returns the others.

    A warning names them. Folders that were saved without an engine are left alone.
    """
    found = checkpoints(directory, prefix)
    half = [folder for folder in found if is_half(folder)]
    for folder in half:
        remove(folder)
    if directory.is_dir():
        for folder in directory.glob(f".{_REMOVED}*"):  # a kill came while they were removed
            shutil.rmtree(folder)
    if half:
        warn(
            f"removed {', '.join(folder.name for folder in half)} from {directory}: not complete, "
            "as the save was cut short",
            3,
        )
    return [folder for folder in found if folder not in half]


def require_whole(folder: Path) -> None:
    """Makes sure that a checkpoint that was named may be resumed from.

    Raises:
        StateError: its save did not come to its end.
    """
    if folder.is_dir() and is_half(folder):
        raise StateError(
            f"{folder} is not complete: its save was cut short; required: a whole checkpoint; "
            "resume from an older one"
        )


def remove(folder: Path) -> None:
    """Removes a checkpoint; a kill on the way leaves nothing that looks like one."""
    doomed = folder.with_name(f".{_REMOVED}{folder.name}")
    if doomed.exists():
        shutil.rmtree(doomed)
    folder.rename(doomed)
    shutil.rmtree(doomed)


def is_spread() -> bool:
    """Whether a launcher has started several processes for this training."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_follower() -> bool:
    """Whether this is one of several processes that train together, but not the first."""
    return is_spread() and int(os.environ.get("RANK", "0")) > 0
