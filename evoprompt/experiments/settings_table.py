"""Tables of settings for the documentation, from the models that check them."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined


class SettingRow(NamedTuple):
    """Setting with its documentation."""

    name: str
    kind: str
    default: str
    purpose: str


def rows(model: type[BaseModel]) -> Iterator[SettingRow]:
    """Yield each setting of ``model``; its purpose is its description, or stands in the docstring.

    It is empty where a setting has neither.
    """
    purposes = _attributes(model)
    for name, field in model.model_fields.items():
        purpose = field.description or purposes.get(name, "")
        purpose = purpose.rstrip(".").replace("``", "`")
        yield SettingRow(name, _kind(field.annotation), _default(field), purpose)


def inner(model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield the settings that are mappings with settings of their own, each with its model."""
    for name, field in model.model_fields.items():
        annotation = field.annotation
        for argument in (annotation, *get_args(annotation)):
            if isinstance(argument, type) and issubclass(argument, BaseModel):
                yield name, argument
                yield from inner(argument)


def _attributes(model: type[BaseModel]) -> dict[str, str]:
    """Return the documentation of attributes in the docstrings of a class and its bases."""
    purposes: dict[str, str] = {}
    for base in reversed(model.__mro__):
        _, _, text = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")
        for name, purpose in re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", text, re.MULTILINE):
            purposes[name] = " ".join(purpose.split())
    return purposes


_PLAIN = {str: "text", Path: "text", int: "whole number", float: "number", bool: "true or false"}


def _kind(annotation: Any) -> str:
    origin, arguments = get_origin(annotation) or annotation, get_args(annotation)
    if origin is Annotated:
        return _kind(arguments[0])
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_kind, arguments)))
    if origin is Literal:
        return " or ".join(
            f"`{'true' if argument is True else argument}`" for argument in arguments
        )
    if origin in (NoneType, None):
        return "`null`"
    if origin in _PLAIN:
        return _PLAIN[origin]
    return "mapping" if issubclass(origin, Mapping | BaseModel) else "list"


def _default(field: FieldInfo) -> str:
    """Return the default in YAML."""
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, BaseModel) or value == "":
        return ""
    return f"`{json.dumps(value, default=str)}`"
