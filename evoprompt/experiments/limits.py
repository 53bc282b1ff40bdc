"""The limits of an optimization: they say when to stop, so a run may be continued with higher ones.

Everything else decides what is found, and stays as it was begun.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from math import inf
from typing import cast

from evoprompt.errors import InputError
from evoprompt.experiments.settings import FROZEN
from evoprompt.section import Settings

Limits = Mapping[str, float | None]
"""What a trial may use, by setting; None for no limit."""

_AMOUNTS = ("calls", "tokens", "usd")


def limits_of(run: Settings, arm: str) -> Limits:
    """The limits of a trial of ``arm``, from the resolved settings of its run."""
    own = _arms(run)[arm]
    host, model = _section(own, "host"), _language_model(own)
    found = {"budget": own.get("budget") or run["budget"], "host.seconds": host.get("seconds")}
    for path, section in (("host", host), ("engine.proposer.lm", model)):
        budget = _section(section, "budget")
        found |= {f"{path}.budget.{name}": budget.get(name) for name in _AMOUNTS}
    return cast(Limits, found)


def is_raised(before: Settings, now: Settings, arms: Sequence[str]) -> bool:
    """Whether a run may go on with the limits of ``now``: some are higher, and nothing is trained.

    Args:
        before: the resolved settings it was begun with.
        now: those it is to go on with.
        arms: of both.

    Raises:
        InputError: a limit is lower.
    """
    hosts = [_section(one, "host") for run in (before, now) for one in _arms(run).values()]
    if any(host.get("name") != FROZEN for host in hosts):
        return False
    found = [(limits_of(before, arm), limits_of(now, arm)) for arm in arms]
    for begun, given in found:
        for name in begun:
            if _number(given[name]) < _number(begun[name]):
                raise InputError(
                    f"{name} is {given[name]} but the run was started with "
                    f"{'no limit' if begun[name] is None else begun[name]}; required: at least "
                    "that, as a limit may be raised on the way and not lowered"
                )
    return any(allows_more(given, begun) for begun, given in found)


def allows_more(limits: Limits, before: Limits) -> bool:
    """Whether any of ``limits`` is higher than it was ``before``."""
    return any(_number(limits[name]) > _number(before.get(name)) for name in limits)


def without_limits(run: Settings) -> Settings:
    """The resolved settings of a run but for its limits."""
    left = deepcopy(run)
    left.pop("evaluate_every", None)  # counts in rollouts, and means nothing to this host
    for part in (left, *_arms(left).values()):
        part.pop("budget", None)
        host = _section(part, "host")
        host.pop("seconds", None)
        host.pop("budget", None)
        _language_model(part).pop("budget", None)
    return left


def _arms(run: Settings) -> dict[str, Settings]:
    return cast(dict[str, Settings], run["arms"])


def _section(settings: Settings, name: str) -> Settings:
    """The section ``name`` itself; an empty one where there is none."""
    found = settings.get(name)
    return found if isinstance(found, dict) else {}


def _language_model(part: Settings) -> Settings:
    return _section(_section(_section(part, "engine"), "proposer"), "lm")


def _number(limit: float | None) -> float:
    return inf if limit is None else limit
