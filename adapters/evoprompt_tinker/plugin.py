"""Recognises the configuration of tinker-cookbook's RL training; imports it to find out never."""

from __future__ import annotations

import sys
import warnings
from importlib import metadata
from typing import TYPE_CHECKING, cast

from packaging.version import Version

from evoprompt.errors import AttachError
from evoprompt.hookspecs import hookimpl
from evoprompt.prompts import ShowsTools
from evoprompt_tinker.host import METHODS, MINIMUM, READ, REPLACED, TESTED

if TYPE_CHECKING:
    from evoprompt.attachment import Attachment, AttachRequest
    from evoprompt_tinker.host import HostConfig

_CONFIG = ("tinker_cookbook.rl.train", "Config")
_PARTS = (
    ("tinker_cookbook.rl.types", "RLDataset"),
    ("tinker_cookbook.rl.types", "RLDatasetBuilder"),
    ("tinker_cookbook.rl.types", "EnvGroupBuilder"),
)


@hookimpl
def evoprompt_attach(request: AttachRequest) -> Attachment | None:
    """Binds the engine to an ``rl.train.Config``; None for anything that is not the cookbook's."""
    if request.adapter not in (None, "tinker"):
        return None
    given = request.trainer
    for part in _PARTS:
        if _is_instance(given, part):
            raise AttachError(
                f"{type(given).__name__} is an {part[1]} of tinker-cookbook, which knows neither "
                "the policy that verification samples from nor where checkpoints are; required: "
                "the tinker_cookbook.rl.train.Config of the training; attach to that, before "
                "train.main(config)"
            )
    if not _is_instance(given, _CONFIG):
        return None
    _require_version(metadata.version("tinker-cookbook"))
    config = cast("HostConfig", given)
    _require_served(config, request)
    from evoprompt_tinker.attachment import TinkerAttachment

    return TinkerAttachment(config, request.engine, request.render, request.probe, request.resume)


def _is_instance(given: object, known: tuple[str, str]) -> bool:
    found = getattr(sys.modules.get(known[0]), known[1], None)
    return isinstance(found, type) and isinstance(given, found)


def _require_version(version: str) -> None:
    if Version(version) < Version(MINIMUM):
        raise AttachError(
            f"tinker-cookbook {version} is too old; required: tinker-cookbook>={MINIMUM}; "
            f'pip install --upgrade "tinker-cookbook>={MINIMUM}"'
        )
    if Version(version).release[:2] > Version(TESTED).release:
        warnings.warn(
            f"tinker-cookbook {version} is newer than {TESTED}, the newest that evoprompt was "
            f'tested with; should anything look odd: pip install "tinker-cookbook=={TESTED}.*"',
            stacklevel=2,
        )


def _require_served(config: HostConfig, request: AttachRequest) -> None:
    """Refuses now what no batch could be made of later."""
    lacking = [name for name in (*REPLACED, *READ, *METHODS) if not hasattr(config, name)]
    if lacking:
        raise AttachError(
            f"the Config of this tinker-cookbook has no {', '.join(lacking)}; required: all of "
            f'them; use one that evoprompt was tested with, pip install "tinker-cookbook=='
            f'{TESTED}.*", or report it'
        )
    if config.async_config is not None:
        raise AttachError(
            "async_config is set: batches are then asked for while earlier ones are trained on, "
            "and groups are regrouped, so that no batch is a step of the engine; required: "
            "async_config=None; train in step, or with stream_minibatch_config"
        )
    several = request.engine.config.candidates_per_question
    if several > 1:
        raise AttachError(
            f"candidates_per_question is {several}, but in tinker-cookbook a question is one "
            "EnvGroupBuilder, whose rollouts share one prompt and one baseline; required: 1; put "
            "the question into the batch several times to see it under several candidates"
        )
    if isinstance(request.render, ShowsTools):
        raise AttachError(
            "the render function shows descriptions of tools, which the cookbook's environments "
            "write themselves; required: one that places the instruction alone, such as "
            "evoprompt.prompts.system_message"
        )
