"""Conversion of pydantic's findings into a single line that names the remedy."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from evoprompt.support.credentials import masked, masked_data
from evoprompt.support.errors import InputError

_MAX_NAME = 100  # characters of a setting's name in a message

ModelT = TypeVar("ModelT", bound=BaseModel)


class CheckedSettings(BaseModel, frozen=True, extra="forbid"):
    """Settings that users also write in Python; an error names the setting that was probably meant.

    Raises:
        InputError: a setting is unknown or cannot be used.
    """

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            explanation = explain(error, type(self))
            if "required: " not in explanation:
                explanation = f"{explanation}; required: a value as in docs/settings.md"
            raise InputError(explanation) from error


def read_json(file: Path, model: type[ModelT], fault: str, remedy: str) -> ModelT:
    """Return the contents of a JSON file that evoprompt wrote.

    Args:
        file: JSON file, unchanged since it was written.
        model: model of its contents.
        fault: message for a file of another form, such as ``is not a result``.
        remedy: remedy for such a file.

    Raises:
        FileNotFoundError: the file does not exist.
        InputError: the file is of another form.
    """
    try:
        return model.model_validate_json(file.read_bytes())
    except ValidationError as error:
        raise InputError(
            f"{file} {fault} ({explain(error, model)}); required: the file as it was written; "
            f"{remedy}"
        ) from error


def validate_settings(model: type[ModelT], values: object, source: str) -> ModelT:
    """Return settings of a user.

    Args:
        model: model of the settings.
        values: the settings as they were given.
        source: the part of the user's input that holds them, for the error.

    Raises:
        InputError: a setting is unknown or cannot be used.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise InputError(f"{source}: {explain(error, model)}") from error


def require_object(name: str, value: object) -> None:
    """Refuse a class in place of an object: a call of it would make one, and return no result.

    Raises:
        InputError: ``value`` is a class.
    """
    if isinstance(value, type):
        raise InputError(
            f"{name} is the class {value.__name__}; required: an object of it, or a function; "
            f"write {name}={value.__name__}(...)"
        )


def nearest(name: str, known_names: Iterable[str]) -> str:
    """Return a hint such as ``"; did you mean 'temperature'?"``; empty if no known name is close.

    >>> nearest("temprature", ["size", "temperature"])
    "; did you mean 'temperature'?"
    """
    close = difflib.get_close_matches(name, list(known_names), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def explain(
    error: ValidationError, model: type[BaseModel], sections: Mapping[str, Container[str]] = {}
) -> str:
    """Return all findings in a single line, each with setting, given value and requirement.

    Args:
        error: error that the validation of ``model`` raised.
        model: model with the known settings of the top level as fields.
        sections: settings by section, to which an unknown key at the top level may belong.
    """
    findings = []
    for finding in error.errors(include_url=False):
        setting = _cut(".".join(str(part) for part in finding["loc"]))
        required = finding["msg"].removeprefix("Value error, ")
        if finding["type"] == "missing":
            findings.append(f"{setting} is missing")
        elif finding["type"] == "extra_forbidden":
            top_level = len(finding["loc"]) == 1
            known_settings = sorted(model.model_fields) if top_level else []
            listing = f" (known: {', '.join(known_settings)})" if known_settings else ""
            section = next((name for name, settings in sections.items() if setting in settings), "")
            hint = nearest(setting, known_settings)
            if top_level and section:
                hint = f"; did you mean {f'{section}.{setting}'!r}?"
            findings.append(f"unknown setting {setting!r}{hint}{listing}")
        elif setting:
            findings.append(f"{setting} is {_describe_input(finding)}: {required}")
        else:
            findings.append(required)
    return "; ".join(findings)


def _cut(setting: str) -> str:
    return setting if len(setting) <= _MAX_NAME else f"{setting[:_MAX_NAME]}..."


def _describe_input(finding: ErrorDetails) -> str:
    key = str(finding["loc"][-1])
    try:
        return masked(reprlib.repr(masked_data(finding["input"], key)))
    except ValueError:  # Python writes no integer of more than 4,300 digits
        return "a number of thousands of digits"
