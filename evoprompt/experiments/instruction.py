"""An instruction that a command takes from a file."""

from __future__ import annotations

from pathlib import Path

from evoprompt.support.errors import InputError


def read_instruction(file: Path) -> str:
    """The text in ``file``, without blank lines around it.

    Raises:
        InputError: there is none, or it cannot be read.
    """
    try:
        text = file.read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{file} cannot be read ({error}); required: a text file with an instruction"
        ) from error
    if not text:
        raise InputError(f"{file} is empty; required: an instruction")
    return text
