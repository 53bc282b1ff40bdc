"""Plugins are found, checked and called by pluggy; components are built by their names."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from hanging import Hang, hanging
from pydantic import BaseModel, Field

from evoprompt import BuildContext, Component, Proposer, Selector, hookimpl, hookspecs, named
from evoprompt.log.events import Event, Notice
from evoprompt.plugins import BLOCK_VARIABLE, Plugins, PluginSource, installed_sources, plugins
from evoprompt.proposers.background import Background
from evoprompt.proposers.combinators import Fallback, NoProposer
from evoprompt.selectors import Softmax
from evoprompt.support.errors import InputError, PluginError

Brought = type[Component] | tuple[str, type[Component]]


class Warm(Softmax):
    """Draws warmly.

    And more.
    """

    class Settings(BaseModel, extra="forbid"):
        temperature: float = Field(1.0, gt=0)


class Good(Softmax):
    """Draws."""


def module(**hooks: object) -> ModuleType:
    made = ModuleType("plugin")
    vars(made).update(hooks)
    return made


def bringing(*brought: Brought, **hooks: object) -> ModuleType:
    @hookimpl
    def evoprompt_components() -> list[Brought]:
        return list(brought)

    return module(evoprompt_components=evoprompt_components, **hooks)


def source(
    load: Callable[[], object], name: str = "mine", distribution: str = "my-plugin"
) -> PluginSource:
    return PluginSource(name, distribution, "1.0", load)


def mine(*brought: Brought, **hooks: object) -> Plugins:
    return Plugins([source(lambda: bringing(*brought, **hooks))])


GOOD = source(lambda: bringing(Good), "good", "good-plugin")


def only_problem(plugins: Plugins) -> str:
    assert [one.name for one in plugins.components()] == ["good"]
    (problem,) = plugins.problems
    return problem


class TestBrokenPlugins:
    def test_an_import_that_fails_is_reported_and_the_rest_works(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        def load() -> object:
            raise ModuleNotFoundError("No module named 'nowhere'")

        with caplog.at_level(logging.WARNING, "evoprompt"):
            problem = only_problem(Plugins([source(load), GOOD]))
        assert problem == (
            "plugin 'mine' of my-plugin 1.0: ModuleNotFoundError: No module named 'nowhere'"
        )
        assert caplog.messages == [problem]

    def test_hooks_that_do_not_exist_and_their_arguments_are_reported(self) -> None:
        @hookimpl
        def evoprompt_componets() -> list[Brought]:
            return []

        @hookimpl
        def evoprompt_event(event: Event, mood: str) -> None: ...

        misspelt = module(evoprompt_componets=evoprompt_componets)
        problem = only_problem(Plugins([source(lambda: misspelt), GOOD]))
        assert "unknown hook 'evoprompt_componets'" in problem
        moody = module(evoprompt_event=evoprompt_event)
        assert "mood" in only_problem(Plugins([source(lambda: moody), GOOD]))
        empty = Plugins([source(lambda: ModuleType("empty")), GOOD])
        assert "it implements no hook" in only_problem(empty)

    def test_a_hook_that_fails_is_reported(self) -> None:
        @hookimpl
        def evoprompt_components() -> list[Brought]:
            raise RuntimeError("no disk")

        plugin = module(evoprompt_components=evoprompt_components)
        problem = only_problem(Plugins([source(lambda: plugin), GOOD]))
        assert "evoprompt_components failed: RuntimeError: no disk" in problem

    @pytest.mark.parametrize(
        ("answer", "required"),
        [
            (None, "it returned None; required: a list"),
            ("softmax", "it returned 'softmax'; required: a list"),
            ([Softmax()], "required: classes; return the class"),
            ([object], "required: classes; return the class, which inherits evoprompt.Proposer"),
            ([Component], "Component has no role; required: one; inherit evoprompt.Proposer"),
            ([("two words", Warm)], "the name of Warm is 'two words'; required: lower-case"),
            ([("Warm", Warm)], "required: lower-case words and digits joined by hyphens"),
        ],
    )
    def test_a_hook_that_returns_something_else_is_told_what_to_return(
        self, answer: object, required: str
    ) -> None:
        @hookimpl
        def evoprompt_components() -> object:
            return answer

        plugin = module(evoprompt_components=evoprompt_components)
        assert required in only_problem(Plugins([source(lambda: plugin), GOOD]))

    def test_commands_of_a_broken_plugin_are_left_out(self) -> None:
        @hookimpl
        def evoprompt_commands() -> list[typer.Typer]:
            raise RuntimeError("no terminal")

        @hookimpl(specname="evoprompt_commands")
        def good_commands() -> list[typer.Typer]:
            return [typer.Typer(name="good")]

        broken = module(evoprompt_commands=evoprompt_commands)
        good = module(evoprompt_commands=good_commands)
        plugins = Plugins([source(lambda: broken), source(lambda: good, "good")])
        assert [group.info.name for group in plugins.commands()] == ["good"]
        assert "no terminal" in plugins.problems[0]

    @pytest.mark.parametrize("broken_first", [True, False])
    def test_an_observer_that_fails_is_not_shown_another_event_and_others_see_all(
        self, broken_first: bool
    ) -> None:
        calls, seen = [], []

        @hookimpl
        def evoprompt_event(event: Event) -> None:
            calls.append(event)
            raise RuntimeError("no disk")

        @hookimpl(specname="evoprompt_event")
        def observe(event: Event) -> None:
            seen.append(event)

        both = [
            source(lambda: bringing(Good, evoprompt_event=evoprompt_event)),
            source(lambda: module(evoprompt_event=observe), "other"),
        ]
        plugins = Plugins(both if broken_first else both[::-1])
        events = [Notice(0, "one"), Notice(0, "two")]
        for event in events:
            plugins.notify(event)
        assert calls == events[:1]
        assert seen == events
        assert "evoprompt_event failed: RuntimeError: no disk" in only_problem(plugins)

    def test_an_observer_that_does_not_return_is_named(self) -> None:
        held: list[Hang] = []

        @hookimpl
        def evoprompt_event(event: Event) -> None:
            held[0].wait()

        plugins = Plugins([source(lambda: module(evoprompt_event=evoprompt_event))])
        with hanging(f"the hook evoprompt_event of module {__name__} has not returned") as hang:
            held.append(hang)
            plugins.notify(Notice(0, "one"))
        assert len(hang.lines) == 1
        assert plugins.problems == []


class TestWrappers:
    """A third party's wrapper is pluggy's affair."""

    def test_it_sees_and_changes_what_all_others_bring(self) -> None:
        @hookimpl(wrapper=True)
        def evoprompt_components() -> Generator[None, Any, Any]:
            found = yield
            return [[named("cold", Warm)], *(list(answer) for answer in found)]

        wrapping = module(evoprompt_components=evoprompt_components)
        plugins = Plugins([GOOD, source(lambda: wrapping)])
        assert [one.name for one in plugins.components()] == ["cold", "good"]
        assert plugins.find("selector", "cold").source.distribution == "my-plugin"
        assert plugins.find("selector", "good").source.distribution == "good-plugin"


class TestCollisions:
    def colliding(self, block: Sequence[str] = ()) -> Plugins:
        return Plugins(
            [
                source(lambda: bringing(Warm), "one", "first-plugin"),
                source(lambda: bringing(named("warm", Softmax)), "two", "second-plugin"),
                GOOD,
            ],
            block,
        )

    def test_neither_of_two_components_of_one_name_is_chosen(self) -> None:
        with pytest.raises(PluginError) as caught:
            self.colliding().build("selector", {"name": "warm"})
        for said in (str(caught.value), only_problem(self.colliding())):
            assert "first-plugin 1.0" in said
            assert "second-plugin 1.0" in said
            assert f"{BLOCK_VARIABLE}=" in said

    def test_blocking_one_resolves_it(self) -> None:
        plugins = self.colliding(block=["second-plugin"])
        assert plugins.problems == []
        assert plugins.find("selector", "warm").source.distribution == "first-plugin"

    @pytest.mark.parametrize("others", [(Warm,), (named("warm", Good),)])
    def test_a_plugin_that_claims_a_name_twice_collides_with_itself(
        self, others: Sequence[Brought]
    ) -> None:
        plugins = mine(Warm, *others)
        assert plugins.components() == []
        assert len(plugins.problems) == 1

    def test_two_entry_points_of_one_name_are_an_error_that_names_both(self) -> None:
        other = source(lambda: bringing(Warm), "good", "other-plugin")
        problem = only_problem(Plugins([GOOD, other]))
        assert "good-plugin 1.0" in problem
        assert "other-plugin 1.0" in problem


class TestBlocking:
    @pytest.mark.parametrize("name", ["mine", "my-plugin", "My_Plugin"])
    def test_a_blocked_plugin_is_not_even_imported(self, name: str) -> None:
        def load() -> object:
            raise AssertionError("it was imported")

        plugins = Plugins([source(load), GOOD], block=[name])
        assert [str(one) for one in plugins.blocked] == ["plugin 'mine' of my-plugin 1.0"]
        assert plugins.problems == []

    def test_asking_for_a_blocked_component_says_what_is_blocked(self) -> None:
        plugins = Plugins([source(lambda: bringing(Warm))], block=["mine"])
        with pytest.raises(PluginError, match="blocked: plugin 'mine' of my-plugin"):
            plugins.build("selector", {"name": "warm"})

    def test_the_environment_blocks_by_name_or_distribution(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(BLOCK_VARIABLE, "trl, builtins")
        fresh = plugins.__wrapped__()
        assert {one.name for one in fresh.blocked} == {"trl", "builtins"}


class Asked(NoProposer):
    """Needs its context, and settings."""

    class Settings(BaseModel, extra="forbid"):
        words: int = 3

    def __init__(self, words: int, directory: object = None) -> None:
        self.words = words
        self.directory = directory

    @classmethod
    def build(cls, settings: Settings, context: BuildContext) -> Asked:
        return cls(settings.words, context.directory)


class Slow(NoProposer):
    """Waits for a service."""

    slow = True


class TestBuilding:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"name": "warm", "temperature": 0}, "temperature is 0: .* greater than 0"),
            ({"name": "warm", "temprature": 1}, "did you mean 'temperature'"),
            ({"name": "warm", "background": True}, "unknown setting 'background'"),
            ({}, "name is None; required: one of warm"),
            ({"name": 3}, "name is 3"),
        ],
    )
    def test_wrong_settings_are_one_line(self, settings: dict[str, object], message: str) -> None:
        with pytest.raises(InputError, match=message) as caught:
            mine(Warm).build("selector", settings)
        assert "\n" not in str(caught.value)

    def test_an_unknown_name_suggests_the_nearest_and_says_what_could_not_be_loaded(self) -> None:
        def load() -> object:
            raise ImportError("no numpy")

        found = Plugins([source(load), source(lambda: bringing(Warm), "warm")])
        with pytest.raises(PluginError, match="unknown selector 'wram'; did you mean 'warm'") as e:
            found.build("selector", {"name": "wram"})
        assert "not loaded: plugin 'mine' of my-plugin 1.0: ImportError: no numpy" in str(e.value)

    def test_one_that_cannot_be_built_is_reported_by_distribution(self) -> None:
        class Abstract(Selector):
            """Lacks select."""

        with pytest.raises(PluginError, match=r"my-plugin 1\.0.*could not be built: .*select"):
            mine(Abstract).build("selector", {"name": "abstract"})

    @pytest.mark.parametrize("check", [True, False])
    def test_an_error_on_purpose_passes_through_and_checks_can_be_left_out(
        self, check: bool
    ) -> None:
        class Unable(Warm):
            """Cannot work."""

            def check(self, probe: bool = False) -> None:
                raise InputError("the task has no bank")

        context = BuildContext(check=check)
        if check:
            with pytest.raises(InputError, match="the task has no bank"):
                mine(Unable).build("selector", {"name": "unable"}, context)
        else:
            assert mine(Unable).build("selector", {"name": "unable"}, context)

    @pytest.mark.parametrize(
        ("settings", "background"),
        [
            ({"name": "asked"}, False),
            ({"name": "asked", "background": True}, True),
            ({"name": "slow"}, True),
            ({"name": "slow", "background": False}, False),
        ],
    )
    def test_every_proposer_may_work_in_the_background(
        self, settings: dict[str, object], background: bool
    ) -> None:
        found = mine(Asked, Slow).build("proposer", settings)
        assert isinstance(found, Background) == background

    def test_every_proposer_may_have_a_fallback_which_is_asked_in_the_same_thread(self) -> None:
        settings = {"name": "asked", "words": 5, "background": True, "fallback": "slow"}
        found = mine(Asked, Slow).build("proposer", settings)
        assert isinstance(found, Background)
        (both,) = found.inner
        assert isinstance(both, Fallback)
        assert isinstance(both.first, Asked)
        assert both.first.words == 5
        assert isinstance(both.second, Slow)


def test_evoprompt_registers_its_own_components_first_and_once() -> None:
    assert installed_sources()[0].name == "builtins"
    assert plugins().find("selector", "softmax").source.distribution == "evoprompt"
    assert plugins() is plugins()
    assert issubclass(plugins().find("proposer", "reflection").component, Proposer)


@pytest.mark.parametrize(
    "hook", [name for name in vars(hookspecs) if name.startswith("evoprompt_")]
)
def test_every_hook_has_a_test_and_is_documented(hook: str) -> None:
    here = Path(__file__).parent
    tests = [here / name for name in ("test_plugins.py", "test_attachment.py")]
    assert any(f"def {hook}(" in path.read_text(encoding="utf-8") for path in tests)
    assert f"`{hook}" in (here.parent / "docs" / "plugins.md").read_text(encoding="utf-8")
    assert getattr(hookspecs, hook).__doc__
