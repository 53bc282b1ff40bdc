"""Recognises the configuration of tinker-cookbook's RL training; imports it to find out never."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, cast

from evoprompt.hookspecs import hookimpl
from evoprompt.hosting.attachment import (
    is_instance,
    methods_of,
    require_attributes,
    require_methods,
    require_question_baseline,
    require_version,
)
from evoprompt.hosting.prompts import ShowsTools
from evoprompt.support.errors import AttachError, InputError
from evoprompt_tinker.host import MINIMUM, TESTED, HostConfig

if TYPE_CHECKING:
    from evoprompt.hosting.attachment import Attachment, AttachRequest

_NAME = "tinker-cookbook"
_CONFIG = ("tinker_cookbook.rl.train", "Config")
_PARTS = ("RLDataset", "RLDatasetBuilder", "EnvGroupBuilder")


@hookimpl
def evoprompt_attach(request: AttachRequest) -> Attachment | None:
    """Bind the engine to an ``rl.train.Config``; return None for an object of another library."""
    if request.adapter not in (None, "tinker"):
        return None
    trainer = request.trainer
    for part in _PARTS:
        if is_instance(trainer, "tinker_cookbook.rl.types", part):
            raise AttachError(
                f"{type(trainer).__name__} is an {part} of tinker-cookbook, which knows neither "
                "the policy that verification samples from nor where checkpoints are; required: "
                "the tinker_cookbook.rl.train.Config of the training; attach to that, before "
                "train.main(config)"
            )
    if not is_instance(trainer, *_CONFIG):
        return None
    require_version(_NAME, metadata.version(_NAME), MINIMUM, TESTED)
    remedy = f'use one that was tested, pip install "{_NAME}=={TESTED}.*", or report it'
    require_attributes(trainer, [*HostConfig.__annotations__], remedy)
    require_methods(trainer, methods_of(HostConfig), remedy)
    config = cast("HostConfig", trainer)
    _require_served(config, request)
    from evoprompt_tinker.attachment import TinkerAttachment

    return TinkerAttachment(config, request)


def _require_served(config: HostConfig, request: AttachRequest) -> None:
    """Refuse settings with which no batch could be made later."""
    if config.async_config is not None:
        raise AttachError(
            "async_config is set: batches are then requested during training on earlier batches, "
            "and groups are regrouped, so that no batch is a step of the engine; required: "
            "async_config=None; train in step, or with stream_minibatch_config"
        )
    try:
        require_question_baseline(
            request.engine.config, "tinker-cookbook compares the rollouts of an EnvGroupBuilder"
        )
    except InputError as error:
        raise AttachError(str(error)) from error
    if isinstance(request.render, ShowsTools):
        raise AttachError(
            "the render function shows descriptions of tools, which the cookbook's environments "
            "write themselves; required: one that places the instruction alone, such as "
            "evoprompt.hosting.prompts.system_message"
        )
