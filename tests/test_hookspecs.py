"""Every hook is exercised through a real plugin and documented for plugin authors."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import typer

from evoprompt import Component, hookimpl, hookspecs, named
from evoprompt.attachment import Attachment, AttachRequest
from evoprompt.engine import Engine
from evoprompt.events import Event, Notice
from evoprompt.plugins import Plugins, PluginSource
from evoprompt.prompts import system_message
from evoprompt.selectors import Softmax

HOOKS = sorted(name for name in vars(hookspecs) if name.startswith("evoprompt_"))
GUIDE = Path(__file__).parents[1] / "docs" / "plugins.md"


def module(**hooks: object) -> ModuleType:
    made = ModuleType("plugin")
    vars(made).update(hooks)
    return made


def plugins_with(plugin: object) -> Plugins:
    return Plugins([PluginSource("mine", "my-plugin", "1.0", lambda: plugin)])


def test_evoprompt_components() -> None:
    @hookimpl
    def evoprompt_components() -> list[tuple[str, type[Component]]]:
        return [named("mine", Softmax)]

    found = plugins_with(module(evoprompt_components=evoprompt_components)).components()
    assert [one.name for one in found] == ["mine"]


def test_evoprompt_attach() -> None:
    seen = []

    @hookimpl
    def evoprompt_attach(request: AttachRequest) -> Attachment | None:
        seen.append(request)
        return None

    plugins = plugins_with(module(evoprompt_attach=evoprompt_attach))
    request = AttachRequest(object(), Engine(["Be brief."]), system_message)
    assert plugins.manager.hook.evoprompt_attach(request=request) is None
    assert seen == [request]


def test_evoprompt_event() -> None:
    seen: list[Event] = []

    @hookimpl
    def evoprompt_event(event: Event) -> None:
        seen.append(event)

    notice = Notice(3, "hello")
    plugins_with(module(evoprompt_event=evoprompt_event)).notify(notice)
    assert seen == [notice]


def test_evoprompt_commands() -> None:
    group = typer.Typer(name="mine")

    @hookimpl
    def evoprompt_commands() -> list[typer.Typer]:
        return [group]

    assert plugins_with(module(evoprompt_commands=evoprompt_commands)).commands() == [group]


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_has_a_test_and_is_documented(hook: str) -> None:
    assert f"test_{hook}" in globals()
    assert f"`{hook}" in GUIDE.read_text(encoding="utf-8")
    assert getattr(hookspecs, hook).__doc__
