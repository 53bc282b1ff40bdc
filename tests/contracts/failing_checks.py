"""Runs a conformance suite on an implementation that may be wrong."""

from __future__ import annotations

from collections.abc import Callable

from evoprompt.testing import Suite, run


def failing(suite: type[Suite[object]], build: Callable[[], object]) -> set[str]:
    """Names of the checks that an implementation fails."""
    checked = type("Checked", (suite,), {"build": lambda self: build()})()
    return {result.name for result in run(checked) if not result.passed}
