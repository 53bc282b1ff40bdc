"""Sweep over values of settings, as arms of the same run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import product

from pydantic import JsonValue

from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.sections import Arm
from evoprompt.experiments.settings import merge, nested
from evoprompt.hosting.section import Settings
from evoprompt.support import yamlfile
from evoprompt.support.errors import InputError

_SECTIONS = ("host", "engine")


def swept(config: RunConfig, sweeps: Sequence[str]) -> RunConfig:
    """Return ``config`` with an arm for every combination of values in place of each arm.

    An arm without a proposer is not multiplied by the engine's settings, which mean nothing to it.
    An arm that starts after another starts after the one with the same values.

    Args:
        config: the run.
        sweeps: each ``"host.KEY=VALUE,VALUE"`` or ``"engine.KEY=VALUE,VALUE"``, values in YAML.

    Raises:
        InputError: a sweep is of another form, or a value impossible.
    """
    axes: dict[str, list[JsonValue]] = {}
    for path, values in map(_axis, sweeps):
        if path in axes:
            raise InputError(
                f"{path} is swept twice; required: all its values in one --sweep, such as "
                f"{path}=1,2,3"
            )
        axes[path] = values
    if not axes:
        return config
    arms: dict[str, Arm] = {}
    for combination in product(*axes.values()):
        chosen = dict(zip(axes, combination, strict=True))
        names = {arm: _name(arm, _meant_for(config, arm, chosen)) for arm in config.arms}
        for name, arm in config.arms.items():
            meant = _meant_for(config, name, chosen)
            if names[name] in arms and meant == chosen:
                raise InputError(
                    f"two arms of the sweep would be called {names[name]}; required: values whose "
                    "letters and digits differ; name the arms in the configuration instead"
                )
            after = None if arm.after is None else names[arm.after]
            arms[names[name]] = with_settings(arm, meant).model_copy(update={"after": after})
    config_with_arms = config.model_copy(update={"arms": arms})
    for name in arms:
        config_with_arms.engine_of(name)
    return config_with_arms


def _axis(sweep: str) -> tuple[str, list[JsonValue]]:
    path, equals, text = sweep.partition("=")
    path = path.strip()
    values = yamlfile.parse(f"[{text}]", f"--sweep {sweep}") if equals else None
    if path.partition(".")[0] not in _SECTIONS or not isinstance(values, list) or not values:
        raise InputError(
            f"--sweep {sweep!r}; required: a setting of host or engine and its values, such as "
            "host.learning_rate=1e-4,2e-4"
        )
    return path, values


def _meant_for(
    config: RunConfig, arm: str, chosen: Mapping[str, JsonValue]
) -> Mapping[str, JsonValue]:
    """Return the settings that change something in ``arm``."""
    evolves = config.engine_of(arm).proposer is not None
    return {path: value for path, value in chosen.items() if evolves or path.startswith("host.")}


def _name(arm: str, chosen: Mapping[str, JsonValue]) -> str:
    """Return a name such as ``coevolve-learning_rate-0.0001``; arms name folders."""
    parts = [f"{path.rpartition('.')[2]}-{value}" for path, value in chosen.items()]
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", "-".join([arm, *parts])).strip("-")


def with_settings(arm: Arm, chosen: Mapping[str, JsonValue]) -> Arm:
    """Return ``arm`` with other values of settings, by their paths in ``host`` or ``engine``."""
    changed: Settings = {"host": arm.host, "engine": arm.engine}
    for path, value in chosen.items():
        changed = merge(changed, nested(f"{path}={json.dumps(value)}"))
    return arm.model_copy(update=changed)
