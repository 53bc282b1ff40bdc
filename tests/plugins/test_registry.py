from __future__ import annotations

import logging
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import pytest
import typer
from evoprompt.plugins.component import AnyComponent, BuildContext, Component, NoSettings, Role
from pydantic import BaseModel, Field

from evoprompt import hookimpl
from evoprompt.errors import InputError, PluginError
from evoprompt.events import Event, Notice
from evoprompt.plugins import BLOCK_VARIABLE, Plugins, PluginSource, installed_sources, plugins
from evoprompt.plugins import component as roles
from evoprompt.selectors import Softmax


class Temperature(BaseModel, extra="forbid"):
    temperature: float = Field(1.0, gt=0)


def build_softmax(settings: Temperature, context: BuildContext) -> Softmax:
    return Softmax(settings.temperature)


def component(name: str = "warm", role: Role = "selector") -> Component[Temperature]:
    return Component(role, name, build_softmax, Temperature, "Draws warmly.")


def bringing(*brought: AnyComponent) -> SimpleNamespace:
    @hookimpl
    def evoprompt_components() -> list[AnyComponent]:
        return list(brought)

    return SimpleNamespace(evoprompt_components=evoprompt_components)


def source(
    load: Callable[[], object], name: str = "mine", distribution: str = "my-plugin"
) -> PluginSource:
    return PluginSource(name, distribution, "1.0", load)


GOOD = source(lambda: bringing(component("good")), "good", "good-plugin")


def only_problem(plugins: Plugins) -> str:
    assert [one.component.name for one in plugins.components()] == ["good"]
    (problem,) = plugins.problems
    return str(problem)


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

    def test_a_plugin_that_exits_while_loading_does_not_end_the_process(self) -> None:
        def load() -> object:
            raise SystemExit(3)

        assert "SystemExit: 3" in only_problem(Plugins([source(load), GOOD]))

    def test_a_misspelt_hook_is_reported(self) -> None:
        @hookimpl
        def evoprompt_componets() -> list[AnyComponent]:
            return []

        plugin = SimpleNamespace(evoprompt_componets=evoprompt_componets)
        problem = only_problem(Plugins([source(lambda: plugin), GOOD]))
        assert "unknown hook 'evoprompt_componets'" in problem

    def test_an_argument_that_the_hook_does_not_have_is_reported(self) -> None:
        @hookimpl
        def evoprompt_event(event: Event, mood: str) -> None: ...

        plugin = SimpleNamespace(evoprompt_event=evoprompt_event)
        assert "mood" in only_problem(Plugins([source(lambda: plugin), GOOD]))

    def test_a_plugin_without_hooks_is_reported(self) -> None:
        problem = only_problem(Plugins([source(lambda: ModuleType("empty")), GOOD]))
        assert "it implements no hook" in problem

    def test_a_hook_that_fails_is_reported(self) -> None:
        @hookimpl
        def evoprompt_components() -> list[AnyComponent]:
            raise RuntimeError("no disk")

        plugin = SimpleNamespace(evoprompt_components=evoprompt_components)
        problem = only_problem(Plugins([source(lambda: plugin), GOOD]))
        assert "evoprompt_components failed: RuntimeError: no disk" in problem

    @pytest.mark.parametrize("answer", [None, "softmax", [Softmax()]])
    def test_a_hook_that_returns_something_else_is_reported(self, answer: object) -> None:
        @hookimpl
        def evoprompt_components() -> object:
            return answer

        plugin = SimpleNamespace(evoprompt_components=evoprompt_components)
        problem = only_problem(Plugins([source(lambda: plugin), GOOD]))
        assert "required: a sequence of Component" in problem

    def test_commands_of_a_broken_plugin_are_left_out(self) -> None:
        @hookimpl
        def evoprompt_commands() -> list[typer.Typer]:
            raise RuntimeError("no terminal")

        plugins = Plugins([source(lambda: SimpleNamespace(evoprompt_commands=evoprompt_commands))])
        assert plugins.commands() == []
        assert "no terminal" in str(plugins.problems[0])

    def test_an_observer_that_fails_is_not_shown_another_event(self) -> None:
        calls = []

        @hookimpl
        def evoprompt_event(event: Event) -> None:
            calls.append(event)
            raise RuntimeError("no disk")

        plugins = Plugins([source(lambda: SimpleNamespace(evoprompt_event=evoprompt_event))])
        plugins.notify(Notice(0, "one"))
        plugins.notify(Notice(0, "two"))
        assert calls == [Notice(0, "one")]

    def test_a_plugin_whose_observer_fails_keeps_its_components(self) -> None:
        @hookimpl
        def evoprompt_event(event: Event) -> None:
            raise RuntimeError("no disk")

        plugin = bringing(component("good"))
        plugin.evoprompt_event = evoprompt_event
        plugins = Plugins([source(lambda: plugin)])
        plugins.notify(Notice(0, "one"))
        assert "evoprompt_event failed: RuntimeError: no disk" in only_problem(plugins)

    def test_an_observer_may_take_no_argument(self) -> None:
        calls = []

        @hookimpl
        def evoprompt_event() -> None:
            calls.append("called")

        plugin = SimpleNamespace(evoprompt_event=evoprompt_event)
        Plugins([source(lambda: plugin)]).notify(Notice(0, ""))
        assert calls == ["called"]


class TestCollisions:
    def colliding(self) -> Plugins:
        return Plugins(
            [
                source(lambda: bringing(component("warm")), "one", "first-plugin"),
                source(lambda: bringing(component("warm")), "two", "second-plugin"),
                GOOD,
            ]
        )

    def test_neither_of_two_components_of_one_name_is_chosen(self) -> None:
        with pytest.raises(PluginError) as caught:
            self.colliding().build("selector", {"name": "warm"})
        assert "first-plugin 1.0" in str(caught.value)
        assert "second-plugin 1.0" in str(caught.value)

    def test_the_listing_names_both_distributions(self) -> None:
        problem = only_problem(self.colliding())
        assert "first-plugin 1.0" in problem
        assert "second-plugin 1.0" in problem

    def test_blocking_one_resolves_it(self) -> None:
        plugins = self.colliding()
        plugins.block(["second-plugin"])
        assert plugins.problems == []
        assert plugins.find("selector", "warm").source.distribution == "first-plugin"

    def test_one_name_may_serve_several_roles(self) -> None:
        plugins = Plugins(
            [source(lambda: bringing(component("warm"), component("warm", "proposer")))]
        )
        assert len(plugins.components()) == 2
        assert plugins.problems == []

    def test_a_plugin_that_claims_a_name_twice_collides_with_itself(self) -> None:
        plugins = Plugins([source(lambda: bringing(component(), component()))])
        assert plugins.components() == []
        assert len(plugins.problems) == 1

    def test_two_entry_points_of_one_name_are_an_error_that_names_both(self) -> None:
        other = source(lambda: bringing(component("warm")), "good", "other-plugin")
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

    def test_a_plugin_can_be_blocked_after_loading(self) -> None:
        plugins = Plugins([source(lambda: bringing(component())), GOOD])
        plugins.block(["mine"])
        assert [one.component.name for one in plugins.components()] == ["good"]
        assert not plugins.manager.has_plugin("mine")

    def test_asking_for_a_blocked_component_says_what_is_blocked(self) -> None:
        plugins = Plugins([source(lambda: bringing(component()))], block=["mine"])
        with pytest.raises(PluginError, match="blocked: plugin 'mine' of my-plugin"):
            plugins.build("selector", {"name": "warm"})

    def test_the_environment_blocks_by_name_or_distribution(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(BLOCK_VARIABLE, "trl, builtins")
        fresh = plugins.__wrapped__()
        assert {one.name for one in fresh.blocked} == {"trl", "builtins"}


class TestBuilding:
    def test_settings_are_validated_by_the_component_s_own_model(self) -> None:
        selector = Plugins([source(lambda: bringing(component()))]).build(
            "selector", {"name": "warm", "temperature": 3}
        )
        assert isinstance(selector, Softmax)
        assert selector.temperature == 3.0

    def test_defaults_are_filled_in(self) -> None:
        found = Plugins([source(lambda: bringing(component()))])
        assert found.validate("selector", {"name": "warm"}) == Temperature(temperature=1.0)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"name": "warm", "temperature": 0}, "temperature is 0: .* greater than 0"),
            ({"name": "warm", "temprature": 1}, "did you mean 'temperature'"),
            ({}, "name is None; required: one of warm"),
            ({"name": 3}, "name is 3"),
        ],
    )
    def test_wrong_settings_are_one_line(self, settings: dict[str, object], message: str) -> None:
        found = Plugins([source(lambda: bringing(component()))])
        with pytest.raises(InputError, match=message) as caught:
            found.build("selector", settings)
        assert "\n" not in str(caught.value)

    def test_an_unknown_name_suggests_the_nearest(self) -> None:
        found = Plugins([source(lambda: bringing(component()))])
        with pytest.raises(PluginError, match="unknown selector 'wram'; did you mean 'warm'"):
            found.build("selector", {"name": "wram"})

    def test_an_unknown_name_mentions_plugins_that_could_not_be_loaded(self) -> None:
        def load() -> object:
            raise ImportError("no numpy")

        with pytest.raises(PluginError, match=r"not loaded: plugin 'mine' .* no numpy"):
            Plugins([source(load)]).build("selector", {"name": "warm"})

    def test_a_factory_that_fails_is_reported_by_distribution(self) -> None:
        def build(settings: NoSettings, context: BuildContext) -> object:
            raise KeyError("weights")

        found = Plugins([source(lambda: bringing(Component("selector", "warm", build)))])
        with pytest.raises(PluginError, match=r"my-plugin 1\.0.*could not be built: KeyError"):
            found.build("selector", {"name": "warm"})

    def test_an_error_on_purpose_passes_through(self) -> None:
        def build(settings: NoSettings, context: BuildContext) -> object:
            raise InputError("the task has no bank")

        found = Plugins([source(lambda: bringing(Component("selector", "warm", build)))])
        with pytest.raises(InputError, match="the task has no bank"):
            found.build("selector", {"name": "warm"})

    def test_something_that_does_not_fill_its_role_is_refused(self) -> None:
        found = Plugins([source(lambda: bringing(component(role="attributor")))])
        with pytest.raises(PluginError, match="a Softmax without observe, stats, reset, forget"):
            found.build("attributor", {"name": "warm"})

    def test_the_context_reaches_the_factory(self) -> None:
        seen = []

        def build(settings: NoSettings, context: BuildContext) -> Softmax:
            seen.append(context)
            return Softmax()

        context = BuildContext()
        found = Plugins([source(lambda: bringing(Component("selector", "warm", build)))])
        found.build("selector", {"name": "warm"}, context)
        assert seen[0] is context


class TestComponent:
    def test_an_unknown_role_is_refused(self) -> None:
        with pytest.raises(ValueError, match="role is 'sampler'; required: one of proposer"):
            component(role="sampler")  # type: ignore[arg-type]

    @pytest.mark.parametrize("name", ["", "Warm", "two words", "-warm", "warm_one"])
    def test_a_name_that_no_configuration_would_use_is_refused(self, name: str) -> None:
        with pytest.raises(ValueError, match="required: lower-case words"):
            component(name)

    @pytest.mark.parametrize("role", roles.ROLES)
    def test_every_role_has_a_protocol(self, role: Role) -> None:
        assert roles.members(role)


class TestInstalled:
    def test_evoprompt_registers_its_own_components_first(self) -> None:
        assert installed_sources()[0].name == "builtins"

    def test_the_built_in_components_are_listed_with_distribution_and_version(self) -> None:
        found = plugins().find("selector", "softmax")
        assert found.source.distribution == "evoprompt"
        assert found.source.version

    def test_the_installed_plugins_are_loaded_once(self) -> None:
        assert plugins() is plugins()
