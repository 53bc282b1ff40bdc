"""Instruction that a command reads from a file."""

from __future__ import annotations

from pathlib import Path

from evoprompt.support.errors import InputError


def read_instruction(file: Path) -> str:
    """Return the text in ``file``, without blank lines around it.

    Raises:
        InputError: the file has no text, or cannot be read.
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
