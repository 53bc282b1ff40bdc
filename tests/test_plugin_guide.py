"""The example of docs/plugins.md passes the suite of its role as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from evoprompt import Component, hookimpl
from evoprompt.plugins import Plugins, PluginSource
from evoprompt.testing import check

GUIDE = (Path(__file__).parents[1] / "docs" / "plugins.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r'^```python title="(\w+)"\n(.*?)^```$', GUIDE, re.M | re.S))


def test_roles_that_the_guide_explains_have_an_example() -> None:
    assert set(EXAMPLES) == {"population", "verifier"}


@pytest.mark.parametrize("role", EXAMPLES)
def test_the_example_of_a_role_passes_its_suite(role: str) -> None:
    module: dict[str, Any] = {"__name__": "example"}
    exec(EXAMPLES[role], module)
    (component,) = [
        one
        for one in module.values()
        if isinstance(one, type) and issubclass(one, Component) and one.__module__ == "example"
    ]

    @hookimpl
    def evoprompt_components() -> list[type[Component]]:
        return [component]

    plugin = ModuleType("example")
    vars(plugin)["evoprompt_components"] = evoprompt_components
    available = Plugins([PluginSource("example", "my-plugin", "1.0", lambda: plugin)])
    (found,) = available.components()
    results = check(role, {"name": found.name}, available=available)
    assert [result for result in results if not result.passed] == []
    assert len(results) >= 10
