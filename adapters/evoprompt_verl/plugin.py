"""Recognises veRL's trainers. Imports neither veRL nor Ray to find out."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, cast

from evoprompt.errors import AttachError, InputError
from evoprompt.hookspecs import hookimpl

if TYPE_CHECKING:
    from evoprompt.attachment import Attachment, AttachRequest
    from evoprompt_verl.host import HostTrainer

_SUPPORTED = ("verl.trainer.ppo.v1.trainer_base", "PPOTrainer")
_LEGACY = ("verl.trainer.ppo.ray_trainer", "RayPPOTrainer")

_METHODS = {
    "fit": ("agent_loop_manager",),
    "_save_checkpoint": (),
    "_validate": (),
    "_compute_reward_colocate": ("batch", "metrics"),
}
"""What is wrapped, with the parameters it must take, in this order."""


@hookimpl
def evoprompt_attach(request: AttachRequest) -> Attachment | None:
    """Binds the engine to a V1 ``PPOTrainer``; None for any other trainer."""
    trainer = request.trainer
    if request.adapter not in (None, "verl"):
        return None
    if _is_instance(trainer, _LEGACY):
        raise AttachError(
            f"{type(trainer).__name__} is veRL's legacy trainer, deprecated and without the queue "
            "that rewards are read from; required: the V1 PPOTrainer; set trainer.use_v1=True"
        )
    if not _is_instance(trainer, _SUPPORTED):
        return None
    from evoprompt_verl.preflight import check_trainer, check_versions

    host = cast("HostTrainer", trainer)
    try:
        check_versions()
        check_trainer(host.config, request.engine.config)
    except InputError as error:
        raise AttachError(str(error)) from error
    _require_methods(host)
    from evoprompt_verl.attachment import VerlAttachment

    return VerlAttachment(host, request.engine, request.render)


def _is_instance(trainer: object, where: tuple[str, str]) -> bool:
    """Whether ``trainer`` is of a class that is not imported to find out."""
    module, name = where
    found = getattr(sys.modules.get(module), name, None)
    return isinstance(found, type) and isinstance(trainer, found)


def _require_methods(trainer: HostTrainer) -> None:
    """Fails now, and clearly, if a later veRL has moved what the adapter wraps."""
    wanted: list[tuple[object, str, tuple[str, ...]]] = [
        *((trainer, name, parameters) for name, parameters in _METHODS.items()),
        (trainer.replay_buffer, "sample", ("global_steps", "partition_id", "batch_size")),
    ]
    for owner, name, parameters in wanted:
        method = getattr(owner, name, None)
        given = tuple(inspect.signature(method).parameters) if callable(method) else ()
        if not callable(method) or given[: len(parameters)] != parameters:
            found = f"{name}({', '.join(given)})" if callable(method) else f"no {name}"
            raise AttachError(
                f"{type(owner).__qualname__} has {found}; required: "
                f"{name}({', '.join(parameters)}); use a veRL that evoprompt was tested with, see "
                "docs/verl.md, or report it"
            )
