"""Engine states as files: JSON, written whole or not at all, nothing executed when read."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pydantic import JsonValue

from evoprompt.errors import StateError

STATE_FILE = "evoprompt_state.json"
"""Name of the engine's file beside a trainer's checkpoint."""


def save_state(path: Path, state: dict[str, JsonValue]) -> None:
    """Writes ``state`` to ``path``; a crash leaves the previous file or the new one, never half.

    Raises:
        ValueError: the state holds a NaN or an infinity.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(state, file, ensure_ascii=False, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def load_state(path: Path) -> dict[str, JsonValue]:
    """The state in ``path``.

    Raises:
        StateError: the file is missing, or not a JSON object.
    """
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StateError(f"no engine state can be read from {path}: {error.strerror}") from error
    except ValueError as error:
        raise StateError(
            f"{path} does not hold an engine state: {error}; required: the JSON file written at a "
            "checkpoint; resume from an older checkpoint or start afresh"
        ) from error
    if not isinstance(state, dict):
        raise StateError(f"{path} holds a {type(state).__name__}; required: a JSON object")
    return state
