"""Placeholders of a prompt that stand for columns of a table, such as ``{question}``."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from pydantic import JsonValue

from evoprompt.support.errors import InputError

_BRACES = re.compile(r"(?<!\{)\{([^{}\n]+)\}(?!\})")
"""Single braces around a text of one line; double braces are no placeholder."""


def placeholders_of(prompt: str, columns: Collection[str], source: str) -> list[str]:
    """Return the columns for which ``prompt`` has a placeholder, in the order of the prompt.

    Braces around anything that is neither a column nor a name stay as they are, as in JSON.

    Raises:
        InputError: a name in braces is no column.
    """
    names = list(dict.fromkeys(_BRACES.findall(prompt)))
    unknown = [name for name in names if name not in columns and name.isidentifier()]
    if unknown:
        raise InputError(
            f"{source} has the placeholder {{{unknown[0]}}}; required: a column of the table, one "
            f"of {', '.join(sorted(columns))}; correct the name, or write {{{{{unknown[0]}}}}} for "
            "braces that stay"
        )
    return [name for name in names if name in columns]


def fill(prompt: str, row: Mapping[str, JsonValue], columns: Collection[str]) -> str:
    """Return ``prompt`` with the values of ``row`` for the placeholders of ``columns``.

    >>> fill('Translate {text} as {"de": ...}.', {"text": "Hi"}, ["text"])
    'Translate Hi as {"de": ...}.'
    """

    def value_of(match: re.Match[str]) -> str:
        name = match[1]
        return as_text(row[name]) if name in columns and name in row else match[0]

    return _BRACES.sub(value_of, prompt)


def as_text(value: JsonValue) -> str:
    """Return a value of a table as a prompt shows it."""
    return value if isinstance(value, str) else "" if value is None else str(value)
