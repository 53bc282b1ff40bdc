"""Writes the page of all settings from the models that check them.

    python .ci/settings.py docs/settings.md

What a setting does stands in its description, or in the docstring of its class under Attributes;
one that stands in neither is an error.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pydantic import BaseModel

from evoprompt.config import PRESETS, Approval, EngineConfig
from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.proxy import ProxySettings
from evoprompt.experiments.settings_table import rows
from evoprompt.lm.settings import BudgetSettings, LmSettings, Prices
from evoprompt.optimizer.options import OptimizeOptions
from evoprompt.plugins import SharedSettings, plugins

PIPE = "\\|"

HEAD = """# Settings

Every setting of a configuration, made from the models that check them by
`python .ci/settings.py docs/settings.md`; a test compares it. `evoprompt run RUN --set KEY=VALUE`
sets one for a run ([how](running.md)), and `evoprompt plugins NAME` prints those of a component. In
Python the settings of the engine are arguments of `evoprompt.EngineConfig`, those of a component
arguments of its class.

"""


def table(model: type[BaseModel]) -> str:
    """The settings of one model as a table."""
    for one in rows(model):
        if not one.purpose:
            raise LookupError(
                f"{model.__module__}.{model.__qualname__}.{one.name} has no description"
            )
    head = ["setting | type | default | what it does", "--- | --- | --- | ---"]
    lines = [
        f"`{one.name}` | {one.kind} | {one.default} | {one.purpose.replace('|', PIPE)}"
        for one in rows(model)
    ]
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
    text += "## A gateway\n\n" + table(ProxySettings)
    text += "## `evoprompt.OptimizeOptions`\n\n" + table(OptimizeOptions)
    role = ""
    for one in plugins().components():
        if one.source.distribution != "evoprompt":
            continue
        if one.component.role != role:
            role = one.component.role
            text += f"## Components: {role}\n\n"
            if role == "proposer":
                text += "### every proposer\n\n" + table(SharedSettings)
        text += f"### {one.name}\n\n{one.description}\n\n"
        if one.component.Settings.model_fields:
            text += table(one.component.Settings)
    return text.rstrip() + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
