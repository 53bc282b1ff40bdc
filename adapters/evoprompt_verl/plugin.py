"""Recognises veRL's trainers. Imports neither veRL nor Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from evoprompt.hookspecs import hookimpl
from evoprompt.hosting.attachment import is_instance, methods_of, require_methods
from evoprompt.support.errors import AttachError, InputError

if TYPE_CHECKING:
    from evoprompt.hosting.attachment import Attachment, AttachRequest

_SUPPORTED = ("verl.trainer.ppo.v1.trainer_base", "PPOTrainer")
_LEGACY = ("verl.trainer.ppo.ray_trainer", "RayPPOTrainer")


@hookimpl
def evoprompt_attach(request: AttachRequest) -> Attachment | None:
    """Bind the engine to a V1 ``PPOTrainer``; return None for any other trainer."""
    trainer = request.trainer
    if request.adapter not in (None, "verl"):
        return None
    if is_instance(trainer, *_LEGACY):
        raise AttachError(
            f"{type(trainer).__name__} is veRL's legacy trainer, deprecated and without the queue "
            "that rewards are read from; required: the V1 PPOTrainer; set trainer.use_v1=True"
        )
    if not is_instance(trainer, *_SUPPORTED):
        return None
    from evoprompt_verl.host import REMEDY, HostReplayBuffer, VerlTrainer, require_host
    from evoprompt_verl.preflight import check_trainer
    from evoprompt_verl.prompt_budget import check_room
    from evoprompt_verl.versions import check_versions

    host = cast("VerlTrainer", trainer)
    try:
        check_versions()
        check_trainer(host.config, request.engine.config)
        request.engine.check(request.probe)
        require_host()
        require_methods(host, methods_of(VerlTrainer), REMEDY)
        require_methods(host.replay_buffer, methods_of(HostReplayBuffer), REMEDY)
        if not hasattr(host, "tokenizer"):
            # Not initialised, so perhaps before Ray starts; otherwise it is measured in ``fit``.
            members = [candidate.text for candidate in request.engine.population.members]
            check_room(host.config, members, request.render)
    except InputError as error:
        raise AttachError(str(error)) from error
    from evoprompt_verl.attachment import VerlAttachment

    return VerlAttachment(host, request)
