"""Recognises TRL's trainers. Imports neither TRL nor torch to find out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, cast

from evoprompt.hookspecs import hookimpl
from evoprompt.hosting.attachment import (
    is_instance,
    methods_of,
    require_attributes,
    require_methods,
    require_version,
)
from evoprompt.support.errors import AttachError
from evoprompt_trl.host import BUFFERS, MINIMUM, TESTED, TrlTrainer

if TYPE_CHECKING:
    from evoprompt.hosting.attachment import Attachment, AttachRequest

_SUPPORTED = (
    ("trl.trainer.grpo_trainer", "GRPOTrainer"),
    ("trl.trainer.rloo_trainer", "RLOOTrainer"),
)
_ASYNC = "AsyncGRPOTrainer"


@hookimpl
def evoprompt_attach(request: AttachRequest) -> Attachment | None:
    """Bind the engine to a ``GRPOTrainer`` or ``RLOOTrainer``; return None for another trainer."""
    trainer = request.trainer
    if request.adapter not in (None, "trl"):
        return None
    # By its name alone, as TRL has moved it, and other libraries have one of their own.
    trainer_class = trainer if isinstance(trainer, type) else type(trainer)
    if any(base.__name__ == _ASYNC for base in trainer_class.__mro__):
        raise AttachError(
            "AsyncGRPOTrainer samples and scores in a child process and has no generation batch "
            "in which to place an instruction; required: GRPOTrainer or RLOOTrainer with the same "
            "arguments, or evoprompt.Gateway between its rollouts and the model, as the section "
            '"With TRL\'s AsyncGRPOTrainer" of docs/gateway.md says'
        )
    if not any(is_instance(trainer, *host_class) for host_class in _SUPPORTED):
        return None
    version = str(getattr(sys.modules.get("trl"), "__version__", "0"))
    remedy = f'use a TRL that was tested, pip install "trl=={TESTED}.*", or report it'
    require_version("trl", version, MINIMUM, TESTED)
    require_methods(trainer, methods_of(TrlTrainer), remedy)
    require_attributes(trainer, BUFFERS, remedy)
    from evoprompt_trl.attachment import TrlAttachment

    return TrlAttachment(cast("TrlTrainer", trainer), request)
