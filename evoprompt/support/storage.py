"""Files that are written completely or not at all, and checkpoints that are complete or refused.

A checkpoint is a folder to which a trainer writes its weights and evoprompt the engine's state
(``Engine.state_dict``, which a resume restores). The state is written before everything else, under
a name that marks the checkpoint as incomplete, and renamed to ``evoprompt_state.json`` when all
files are complete. So a folder with that file is complete, and a folder with :data:`BEGUN_FILE`
alone remains from a save that a kill or a full disk cut short.
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

from pydantic import BaseModel, JsonValue

from evoprompt.support.errors import InputError, StateError, warn

STATE_FILE = "evoprompt_state.json"
"""Name of the engine's file in a complete checkpoint."""

RECIPE_FILE = "evoprompt.json"
"""Name of the file that describes how to prompt the policy, in a checkpoint and in an export."""

BEGUN_FILE = "evoprompt_state.begun.json"
"""Name of the engine's file while the checkpoint is being written."""

_CHECKSUM = "checksum"  # first key of evoprompt's files in a checkpoint
_REMOVED_PREFIX = "removed-"
_SENTINEL = "checkpoint-is-incomplete.txt"  # transformers', before a save on SIGTERM


class SavedRecord(BaseModel):
    """Record that is part of an engine's state, and continues to change."""

    def state_dict(self) -> dict[str, JsonValue]:
        """Return the fields, as JSON values."""
        return self.model_dump(mode="json")

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Take over the fields of ``state``.

        Raises:
            LookupError: a field is missing.
            ValueError: a field is of a wrong type.
        """
        names = type(self).model_fields
        loaded = type(self).model_validate({name: state[name] for name in names})
        for name in names:
            setattr(self, name, getattr(loaded, name))


def unwritable(path: Path, folder: bool) -> str:
    """Return why ``path`` cannot be written as a folder, or a file; empty if it can.

    Creates nothing.
    """
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
    """Require that ``path`` can be written as a folder; call it before slow work.

    Raises:
        InputError: it cannot be written as a folder.
    """
    if reason := unwritable(path, folder=True):
        raise InputError(
            f"{setting} is {path} ({reason}); required: a folder to write; name another"
        )


LOCK = "writer.lock"
"""Name of the lock file in a folder that a single process writes; it remains there when unlocked.
"""


@contextmanager
def only_writer(
    folder: Path, work: str, wait: float = 0.0, waiting: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Lock ``folder`` for this process inside the context, on a shared file system, too.

    The lock is the kernel's: it is free as soon as its process has ended, in whatever way.

    Args:
        folder: the folder; created if it is missing.
        work: name of the work in the folder, for the message.
        wait: seconds to wait for another process to end.
        waiting: function that is called before the wait.

    Raises:
        InputError: another process works in the folder, or it cannot be written to.
    """
    from filelock import FileLock, Timeout  # imports asyncio; most commands lock nothing

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
            f"another process is at work in {folder} ({work}); required: one at a time; wait for "
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
    """Replace the file ``path`` by ``text``; a crash leaves the old file or the new one.

    Creates the folder if it is missing. Lone surrogates, which UTF-8 cannot encode, are written as
    JSON escapes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # The name is the same every time: the next write overwrites what a kill left behind.
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
    """Return whether ``file`` is a file that a killed :func:`write_whole` left behind."""
    return file.name.startswith(".") and file.suffix == ".tmp"


class LineFile:
    """File to which lines are appended; a last line that was cut short does not count.

    A kill or a full disk leaves such a partial line. It is skipped when the file is read, and
    overwritten by the next line. An appended line stays in the file if the process ends, not if the
    machine fails. Other processes may append to the file too, one at a time.

    Args:
        path: the file; created, with its folder, when the first line is appended.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = 0  # bytes of the lines that were read or appended here

    def __iter__(self) -> Iterator[bytes]:
        """Yield the complete lines with their ends."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield line

    def news(self) -> list[bytes]:
        """Return the complete lines that were not appended here or returned before.

        They are without their ends.
        """
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            return self._news(file)

    def _news(self, file: BinaryIO) -> list[bytes]:
        file.seek(self._size)
        new_bytes = file.read()
        complete = new_bytes[: new_bytes.rfind(b"\n") + 1]
        self._size += len(complete)
        return complete.split(b"\n")[:-1]

    def append(self, line: bytes) -> None:
        """Append ``line``, which includes its line end.

        Raises:
            OSError: the line could not be written; the file is as before, except for a partial
            line.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab+", buffering=0) as file:
            if file.tell() > self._size:
                self._news(file)
                file.truncate(self._size)
            num_written = file.write(line)
            while num_written < len(line):  # a full disk takes a part of the line, and then nothing
                num_written += file.write(line[num_written:])
        self._size += len(line)

    def fingerprint(self, count: int) -> str:
        """Return a digest of the first ``count`` lines."""
        digest = hashlib.blake2b(digest_size=16)
        for line in islice(self, count):
            digest.update(line)
        return digest.hexdigest()

    def keep(self, count: int) -> None:
        """Drop all but the first ``count`` lines."""
        self._size = sum(map(len, islice(self, count)))
        os.truncate(self._path, self._size)


def save_state(path: Path, state: Mapping[str, JsonValue]) -> None:
    """Write ``state`` and its checksum to ``path``, completely or not at all.

    Raises:
        ValueError: the state holds a NaN or an infinity; an earlier file stays as it was.
    """
    text = _to_json(state)
    checksum = _to_json({_CHECKSUM: _digest(text)})
    write_whole(path, f"{checksum[:-1]}, {text[1:]}" if state else checksum)


def read_checked(path: Path) -> JsonValue:
    """Return the JSON value in ``path``, without its checksum; one without a checksum, too.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not JSON, holds a NaN or an infinity, is nested too deeply, or was
            changed since it was written.
    """
    try:
        value: JsonValue = json.loads(path.read_text(encoding="utf-8"))
        checksum = value.pop(_CHECKSUM, None) if isinstance(value, dict) else None
        text = _to_json(value)
    except RecursionError as error:
        raise ValueError(str(error)) from error
    if checksum is not None and checksum != _digest(text):
        raise ValueError("its contents do not match its checksum: it was changed or damaged")
    return value


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()


def load_state(path: Path) -> dict[str, JsonValue]:
    """Return the state in ``path``.

    Raises:
        StateError: the file is missing, damaged, not a JSON object, or holds a NaN or an infinity.
    """
    try:
        state = read_checked(path)
    except OSError as error:
        raise StateError(
            f"no engine state can be read from {path}: {error.strerror}; required: the file "
            "written at a checkpoint; check the path"
        ) from error
    except ValueError as error:
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
    """Write ``state`` into ``folder``; mark it as complete after the body has written its files.

    If the body raises, or the process is killed, the folder stays behind as an incomplete
    checkpoint.
    """
    save_state(folder / BEGUN_FILE, state)
    (folder / STATE_FILE).unlink(missing_ok=True)  # the folder may be written for a second time
    yield
    (folder / BEGUN_FILE).replace(folder / STATE_FILE)


def is_half(folder: Path) -> bool:
    """Return whether ``folder`` remains from a save that did not complete."""
    if (folder / STATE_FILE).exists():
        return False
    if (folder / BEGUN_FILE).exists():
        return True
    return all(is_temporary(file) or file.name == _SENTINEL for file in folder.iterdir())


def checkpoints(directory: Path, prefix: str) -> list[Path]:
    """Return the folders ``PREFIX<number>`` in ``directory``, by number.

    Incomplete ones and those of other programs are included.
    """
    if not directory.is_dir():
        return []
    named = [
        (int(match[1]), folder)
        for folder in directory.iterdir()
        if (match := re.fullmatch(re.escape(prefix) + r"(\d+)", folder.name)) and folder.is_dir()
    ]
    return [folder for _, folder in sorted(named)]


def mend(directory: Path, prefix: str) -> list[Path]:
    """Remove the incomplete checkpoints from ``directory``, and return the remaining ones.

    A warning names the removed folders. Folders that were saved without an engine are left alone.
    """
    folders = checkpoints(directory, prefix)
    incomplete = [folder for folder in folders if is_half(folder)]
    for folder in incomplete:
        remove(folder)
    if directory.is_dir():
        for folder in directory.glob(f".{_REMOVED_PREFIX}*"):  # a kill came while they were removed
            shutil.rmtree(folder)
    if incomplete:
        warn(
            f"removed {', '.join(folder.name for folder in incomplete)} from {directory}: "
            "not complete, as the save was cut short",
            3,
        )
    return [folder for folder in folders if folder not in incomplete]


def require_whole(folder: Path) -> None:
    """Require that a checkpoint that the user named is complete.

    Raises:
        StateError: its save did not complete.
    """
    if folder.is_dir() and is_half(folder):
        raise StateError(
            f"{folder} is not complete: its save was cut short; required: a whole checkpoint; "
            "resume from an older one"
        )


def remove(folder: Path) -> None:
    """Remove a checkpoint.

    A kill during the removal leaves nothing that looks like a checkpoint.
    """
    doomed = folder.with_name(f".{_REMOVED_PREFIX}{folder.name}")
    if doomed.exists():
        shutil.rmtree(doomed)
    folder.rename(doomed)
    shutil.rmtree(doomed)


def is_spread() -> bool:
    """Return whether a launcher has started several processes for this training."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_follower() -> bool:
    """Return whether this is one of several processes that train together, but not the first."""
    return is_spread() and int(os.environ.get("RANK", "0")) > 0
