"""Writes the page of all settings from the models that check them.

    python .ci/settings.py docs/settings.md

What a setting does stands in its description, or in the docstring of its class under Attributes;
one that stands in neither is an error.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from evoprompt.config import PRESETS, Approval, EngineConfig
from evoprompt.experiments.config import RunConfig
from evoprompt.lm.settings import BudgetSettings, LmSettings, Prices
from evoprompt.optimizer.options import OptimizeOptions
from evoprompt.plugins import plugins

HEAD = """# Settings

Every setting of a configuration, made from the models that check them by
`python .ci/settings.py docs/settings.md`; a test compares it. `evoprompt run RUN --set KEY=VALUE`
sets one for a run ([how](running.md)). In Python the settings of the engine are arguments of
`evoprompt.EngineConfig`, and those of a component arguments of its class.

"""


def rows(model: type[BaseModel]) -> Iterator[tuple[str, ...]]:
    """Yields name, type, default and purpose of each setting."""
    told = attributes(model)
    for name, field in model.model_fields.items():
        purpose = field.description or told.get(name)
        if purpose is None:
            raise SystemExit(f"{model.__module__}.{model.__qualname__}.{name} has no description")
        yield (
            f"`{name}`",
            kind(field.annotation),
            default(field),
            purpose.rstrip(".").replace("``", "`").replace("|", "\\|"),
        )


def attributes(model: type[BaseModel]) -> dict[str, str]:
    """What the docstrings of a class and of those that it inherits say of its attributes."""
    found: dict[str, str] = {}
    for one in reversed(model.__mro__):
        _, _, text = inspect.cleandoc(one.__doc__ or "").partition("Attributes:\n")
        for name, purpose in re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", text, re.MULTILINE):
            found[name] = " ".join(purpose.split())
    return found


PLAIN = {str: "text", Path: "text", int: "whole number", float: "number", bool: "true or false"}


def kind(annotation: Any) -> str:
    """The type as a person writes it."""
    origin, arguments = get_origin(annotation) or annotation, get_args(annotation)
    if origin is Annotated:
        return kind(arguments[0])
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(kind, arguments)))
    if origin is Literal:
        return " or ".join(f"`{one}`" for one in arguments)
    if origin in (NoneType, None):
        return "`null`"
    if origin in PLAIN:
        return PLAIN[origin]
    return "mapping" if issubclass(origin, Mapping | BaseModel) else "list"


def default(field: FieldInfo) -> str:
    """The default as YAML has it."""
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, BaseModel) or value == "":
        return ""
    return f"`{json.dumps(value, default=str)}`"


def table(model: type[BaseModel]) -> str:
    """The settings of one model as a table."""
    lines = [" | ".join(row) for row in rows(model)]
    head = ["setting | type | default | what it does", "--- | --- | --- | ---"]
    return "".join(f"| {line} |\n" for line in [*head, *lines]) + "\n"


def page() -> str:
    """The whole page; components that plugins bring are in the plugins' own pages."""
    text = HEAD + "## A run\n\n" + table(RunConfig)
    text += "## The engine\n\n" + table(EngineConfig)
    text += "### approve\n\n" + table(Approval)
    text += "### What presets change\n\n| preset | settings |\n| --- | --- |\n"
    for preset, changed in PRESETS.items():
        said = ", ".join(f"`{name}: {json.dumps(value)}`" for name, value in changed.items())
        text += f"| `{preset}` | {said or 'nothing'} |\n"
    text += "\n## A language model\n\n" + table(LmSettings)
    text += "### budget\n\n" + table(BudgetSettings) + "### prices\n\n" + table(Prices)
    text += "## `evoprompt.OptimizeOptions`\n\n" + table(OptimizeOptions)
    role = ""
    for one in plugins().components():
        if one.source.distribution != "evoprompt":
            continue
        if one.component.role != role:
            role = one.component.role
            text += f"## Components: {role}\n\n"
        text += f"### {one.name}\n\n{one.description}\n\n"
        if one.component.Settings.model_fields:
            text += table(one.component.Settings)
    return text.rstrip() + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
