"""The limits of an optimization: they say when to stop, so a run may be continued with other ones.

Everything else decides what is found, and stays as it was begun.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, cast

from evoprompt.section import Settings

Limits = Mapping[str, float | None]
"""What a trial may use, by setting; None for no limit."""

_LIMITS = ("host.seconds", *(
    f"{place}.budget.{name}"
    for place in ("host", "engine.proposer.lm")
    for name in ("calls", "tokens", "usd")
))  # fmt: skip


def limits_of(run: Settings, arm: str) -> Limits:
    """The limits of a trial of ``arm``, from the resolved settings of its run."""
    own = cast(Mapping[str, Settings], run["arms"])[arm]
    budget = cast(float, own.get("budget") or run["budget"])
    return {"budget": budget, **{path: _at(own, path) for path in _LIMITS}}


def is_limit(path: str) -> bool:
    """Whether a setting of a run that only optimizes says when to stop."""
    own = f".{path}."  # evaluate_every counts in rollouts, and means nothing to the host frozen
    return any(f".{name}." in own for name in ("budget", "host.seconds", "evaluate_every"))


def allows_more(limits: Limits, before: Limits) -> bool:
    """Whether any of ``limits`` is higher than it was ``before``."""
    return any(_number(limits[name]) > _number(before.get(name)) for name in limits)


def _at(settings: Any, path: str) -> float | None:
    for key in path.split("."):
        settings = settings.get(key) if isinstance(settings, Mapping) else None
    return cast(float | None, settings)


def _number(limit: float | None) -> float:
    return inf if limit is None else limit
