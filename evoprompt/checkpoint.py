"""Files written whole or not at all; engine states as JSON, of which reading executes nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pydantic import JsonValue

from evoprompt.errors import StateError

STATE_FILE = "evoprompt_state.json"
"""Name of the engine's file beside a trainer's checkpoint."""


def write_whole(path: Path, text: str) -> None:
    """Replaces the file ``path`` by ``text``; a crash leaves the old file or the new one.

    Lone surrogates, which UTF-8 cannot carry, are written as JSON escapes them.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def save_state(path: Path, state: dict[str, JsonValue]) -> None:
    """Writes ``state`` to ``path``, whole or not at all.

    Raises:
        ValueError: the state holds a NaN or an infinity; an earlier file stays as it was.
    """
    write_whole(path, json.dumps(state, ensure_ascii=False, allow_nan=False))


def load_state(path: Path) -> dict[str, JsonValue]:
    """The state in ``path``.

    Raises:
        StateError: the file is missing, or not a JSON object.
    """
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
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
