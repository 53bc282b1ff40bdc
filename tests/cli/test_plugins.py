from __future__ import annotations

from importlib import import_module

import pytest
from command_line import stderr_of, stdout_of
from pydantic import BaseModel

from evoprompt import Component, Proposal, ProposalRequest, Proposer, hookimpl, named
from evoprompt.plugins import BLOCK_VARIABLE, plugins
from evoprompt.selectors import Softmax

pytestmark = pytest.mark.usefixtures("fake_task")


def test_lists_role_name_distribution_version_and_description(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    lines = [line.split() for line in stdout_of("plugins").splitlines()]
    heading = lines.index(["task", "evoprompt-fake", "1.0"])
    assert lines[heading + 1] == ["fake", "Families", "that", "nobody", "has"]


def test_what_can_be_set_of_one_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    lines = [" ".join(line.split()) for line in stdout_of("plugins", "reflection").splitlines()]
    assert lines[0].startswith("proposer reflection (plugin 'builtins' of evoprompt")
    assert "lm mapping required the language model that is used" in lines
    assert "calls whole number or null null requests sent" in lines  # of lm.budget
    (fallback,) = (line for line in lines if line.startswith("fallback "))
    assert fallback.endswith("used when this one fails")
    assert "did you mean 'reflection'?" in stderr_of("plugins", "reflektion")


def test_a_setting_of_other_people_s_that_nobody_described_is_shown_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Mine(Proposer):
        """Adds a sentence."""

        class Settings(BaseModel):
            sentences: list[str] = ["Be brief."]

        def propose(self, request: ProposalRequest) -> list[Proposal]:
            return []

    @hookimpl
    def evoprompt_components() -> list[tuple[str, type[Component]]]:
        return [named("mine", Mine)]

    monkeypatch.setattr(
        import_module("evoprompt_fake"), "evoprompt_components", evoprompt_components
    )
    plugins.cache_clear()
    monkeypatch.setenv("COLUMNS", "120")
    lines = [" ".join(line.split()) for line in stdout_of("plugins", "mine").splitlines()]
    assert 'sentences list ["Be brief."]' in lines


def test_a_component_that_keeps_its_promises_passes() -> None:
    text = stdout_of("plugins", "--check", "softmax")
    assert "selector softmax (plugin 'builtins' of evoprompt" in text
    assert "FAIL" not in text
    error = stderr_of("plugins", "--check", "softmax", "--set", "temperature=-1")
    assert "temperature is -1" in error


def test_all_components_of_a_distribution_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = import_module("evoprompt_fake")
    components = [named("first", Softmax), named("second", Softmax)]
    monkeypatch.setattr(fake, "evoprompt_components", hookimpl(lambda: components))
    plugins.cache_clear()
    for distribution in ("evoprompt-fake", "evoprompt_fake"):
        text = stdout_of("plugins", "--check", distribution)
        assert "selector first (plugin 'fake' of evoprompt-fake" in text
        assert "selector second (plugin 'fake' of evoprompt-fake" in text
        assert "softmax" not in text
    assert "did you mean 'evoprompt-fake'" in stderr_of("plugins", "--check", "evoprompt-fakes")


def test_a_component_that_does_not_fails_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Softmax, "select", lambda self, candidate_stats, k, rng: list(candidate_stats)
    )
    text = stdout_of("plugins", "--check", "softmax", code=1)
    assert "FAIL chooses exactly k of the given" in text


def test_a_blocked_plugin_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BLOCK_VARIABLE, "evoprompt-fake")
    plugins.cache_clear()
    text = stdout_of("plugins")
    assert "blocked: plugin 'fake' of evoprompt-fake 1.0" in text
    assert "Families" not in text


def test_a_plugin_that_fails_is_named_with_its_distribution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @hookimpl
    def evoprompt_components() -> list[type]:
        raise RuntimeError("no disk")

    monkeypatch.setattr(
        import_module("evoprompt_fake"), "evoprompt_components", evoprompt_components
    )
    plugins.cache_clear()
    said = "not loaded: plugin 'fake' of evoprompt-fake 1.0: evoprompt_components failed"
    assert f"{said}: RuntimeError: no disk" in stdout_of("plugins")
    assert f"{said}: RuntimeError: no disk" in stderr_of("plugins", "--check", "families")
