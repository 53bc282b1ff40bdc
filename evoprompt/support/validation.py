"""Turns pydantic's findings into one line a person can act on."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from evoprompt.support.errors import InputError
from evoprompt.support.text import masked, masked_data

_LONGEST = 100  # characters of a setting's name that are told

ModelT = TypeVar("ModelT", bound=BaseModel)


class CheckedSettings(BaseModel, extra="forbid"):
    """Settings that people also write in Python, where a wrong one says what was meant.

    Raises:
        InputError: a setting is unknown or cannot be used.
    """

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**given)
        except ValidationError as error:
            said = explain(error, type(self))
            if "required: " not in said:
                said = f"{said}; required: what docs/settings.md says of it"
            raise InputError(said) from error


def read_json(file: Path, model: type[ModelT], fault: str, remedy: str) -> ModelT:
    """What a file of ours holds.

    Args:
        file: of JSON, as it was written.
        model: its form.
        fault: what is to be said of a file of another form, such as ``is not a result``.
        remedy: what to do then.

    Raises:
        FileNotFoundError: there is none.
        InputError: it is of another form.
    """
    try:
        return model.model_validate_json(file.read_bytes())
    except ValidationError as error:
        raise InputError(
            f"{file} {fault} ({explain(error, model)}); required: the file as it was written; "
            f"{remedy}"
        ) from error


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint such as ``"; did you mean 'temperature'?"``; empty when nothing known is close.

    >>> nearest("temprature", ["size", "temperature"])
    "; did you mean 'temperature'?"
    """
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def explain(
    error: ValidationError, model: type[BaseModel], sections: Mapping[str, Container[str]] = {}
) -> str:
    """All findings in one line, each with the setting, the value given and what is required.

    Args:
        error: what validating ``model`` raised.
        model: names the known settings for unknown keys at the top level.
        sections: of settings below it, which an unknown key may belong into.
    """
    findings = []
    for finding in error.errors(include_url=False):
        setting = _cut(".".join(str(part) for part in finding["loc"]))
        required = finding["msg"].removeprefix("Value error, ")
        if finding["type"] == "missing":
            findings.append(f"{setting} is missing")
        elif finding["type"] == "extra_forbidden":
            top_level = len(finding["loc"]) == 1
            known = sorted(model.model_fields) if top_level else []
            listing = f" (known: {', '.join(known)})" if known else ""
            section = next((name for name, held in sections.items() if setting in held), "")
            hint = nearest(setting, known)
            if top_level and section:
                hint = f"; did you mean {f'{section}.{setting}'!r}?"
            findings.append(f"unknown setting {setting!r}{hint}{listing}")
        elif setting:
            findings.append(f"{setting} is {_shown(finding)}: {required}")
        else:
            findings.append(required)
    return "; ".join(findings)


def _cut(setting: str) -> str:
    return setting if len(setting) <= _LONGEST else f"{setting[:_LONGEST]}..."


def _shown(finding: ErrorDetails) -> str:
    key = str(finding["loc"][-1])
    try:
        return masked(reprlib.repr(masked_data(finding["input"], key)))
    except ValueError:  # Python writes no integer of more than 4,300 digits
        return "a number of thousands of digits"
