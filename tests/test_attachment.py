"""``attach`` says which of its arguments it cannot use, before any adapter is asked."""

from __future__ import annotations

from typing import Any

import pytest

from evoprompt import AttachRequest, Engine, attach, hookimpl
from evoprompt.plugins import Plugins, PluginSource, plugins
from evoprompt.support.errors import AttachError


class Trainer:
    """Of no host."""


@pytest.fixture(autouse=True)
def nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(request: AttachRequest) -> None:
        raise AssertionError("an adapter was asked")

    monkeypatch.setattr(plugins().manager.hook, "evoprompt_attach", ask)


@pytest.mark.parametrize(
    ("engine", "what"),
    [
        (None, "of type NoneType"),
        (Engine, "the class Engine"),
    ],
)
def test_an_engine_of_a_wrong_type_is_refused(engine: Any, what: str) -> None:
    with pytest.raises(AttachError, match=rf"engine is {what}; required: an evoprompt\.Engine"):
        attach(Trainer(), engine)


def test_arguments_the_wrong_way_round_are_refused() -> None:
    swapped: Any = Trainer()
    with pytest.raises(AttachError, match=r"engine is of type Trainer.*the trainer first"):
        attach(Engine(["Search."]), swapped)


@pytest.mark.parametrize("render", ["user"])
def test_a_render_that_is_no_function_is_refused(render: Any) -> None:
    with pytest.raises(AttachError, match=r"render is of type .*; required: a function"):
        attach(Trainer(), Engine(["Search."]), render=render)


def test_the_first_adapter_that_knows_the_trainer_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fits:
        @hookimpl
        def evoprompt_attach(self, request: AttachRequest) -> object:
            return self if isinstance(request.trainer, Trainer) else None

    sources = [PluginSource(name, "evoprompt-fits", "1.0", Fits) for name in ("one", "two")]
    found = Plugins(sources)
    monkeypatch.setattr("evoprompt.hosting.attachment.plugins", lambda: found)
    assert attach(Trainer(), Engine(["Search."])) is found.manager.get_plugin("two")
