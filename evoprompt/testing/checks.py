"""Runner of the conformance suites on an installed component, without pytest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evoprompt.components import BuildContext
from evoprompt.plugins import Plugins, Registered, plugins
from evoprompt.support.errors import InputError
from evoprompt.testing.attributors import AttributorSuite
from evoprompt.testing.fakes import SampleTask
from evoprompt.testing.populations import PopulationSuite
from evoprompt.testing.proposers import ProposerSuite
from evoprompt.testing.selectors import SelectorSuite
from evoprompt.testing.suite import Result, Suite, expect, results
from evoprompt.testing.verifiers import VerifierSuite

SUITES: Mapping[str, type[Suite[Any]]] = {
    "proposer": ProposerSuite,
    "selector": SelectorSuite,
    "attributor": AttributorSuite,
    "verifier": VerifierSuite,
    "population": PopulationSuite,
}
"""Suites of the five roles; those of the layers above are in ``evoprompt.experiments.testing``."""


class ComponentSuite(Suite[object]):
    """Contract of every component, for any role.

    Attributes:
        component: the checked component.
    """

    component: Registered

    def test_describes_itself_in_one_line(self) -> None:
        lines = len(self.component.description.splitlines())
        expect(lines == 1, f"its description has {lines} lines; required: one")

    def test_refuses_settings_it_does_not_know(self) -> None:
        model = self.component.component.Settings
        expect(
            model.model_config.get("extra") == "forbid",
            f'{model.__name__} ignores a misspelt setting; required: extra="forbid"',
        )

    def test_builds_a_new_object_each_time(self) -> None:
        expect(self.build() is not self.build(), "two builds returned the same object")


def check(
    role: str, settings: Mapping[str, object], *, available: Plugins | None = None
) -> list[Result]:
    """Return the results of all checks of one component; see :func:`checking`."""
    return list(checking(role, settings, plugins() if available is None else available))


def checking(
    role: str,
    settings: Mapping[str, object],
    available: Plugins,
    *,
    suites: Mapping[str, type[Suite[Any]]] = SUITES,
) -> Iterator[Result]:
    """Yield the results one by one, as soon as each is known; components may use a `SampleTask`.

    A proposer that is ``slow`` presumably uses a language model: it need not repeat itself.

    Args:
        role: role of the component.
        settings: its ``name``, and its settings for the checks.
        available: plugins that include it.
        suites: suites by role.

    Raises:
        PluginError: the component does not exist.
        InputError: the settings do not suit it, or its role has no suite.
    """
    if role not in suites:
        raise InputError(
            f"role is {role!r}; required: one of {', '.join(suites)}; the suites of tasks, hosts "
            "and launchers are in evoprompt.experiments.testing"
        )
    context = BuildContext(SampleTask())
    component = available.find(role, str(settings.get("name")))
    available.validate(role, settings)

    def build(suite: Suite[object]) -> object:
        return available.build(role, settings, context)

    attributes = {
        "build": build,
        "component": component,
        "repeatable": not getattr(component.component, "slow", False),
    }
    kinds = [type("Checked", (kind,), attributes) for kind in (ComponentSuite, suites[role])]
    return (result for kind in kinds for result in results(kind()))
