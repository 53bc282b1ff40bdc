"""Plugin of this distribution."""

from __future__ import annotations

from collections.abc import Sequence

from evoprompt import Component, hookimpl, named
from evoprompt_gepa.reflection import GepaReflection


@hookimpl
def evoprompt_components() -> Sequence[tuple[str, type[Component]]]:
    """Return the proposer ``gepa``."""
    return [named("gepa", GepaReflection)]
