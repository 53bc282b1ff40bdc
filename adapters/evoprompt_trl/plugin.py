"""Recognises TRL's trainers. Imports neither TRL nor torch to find out."""

from __future__ import annotations

import inspect
import re
import sys
from typing import TYPE_CHECKING, cast

from evoprompt.errors import AttachError
from evoprompt.hookspecs import hookimpl

if TYPE_CHECKING:
    from evoprompt.attachment import Attachment, AttachRequest
    from evoprompt_trl.host import HostTrainer

MINIMUM = (1, 0)
"""The oldest TRL that rolls multi-turn episodes out without vLLM."""

_SUPPORTED = {
    "trl.trainer.grpo_trainer": "GRPOTrainer",
    "trl.trainer.rloo_trainer": "RLOOTrainer",
}
_ASYNC = {"trl.experimental.async_grpo.async_grpo_trainer": "AsyncGRPOTrainer"}

_METHODS = {
    "_generate_and_score_completions": ("inputs",),
    "_calculate_rewards": ("inputs", "prompts", "completions", "completion_ids_list"),
    "log": ("logs", "start_time"),
    "train": ("resume_from_checkpoint",),
    "_save_checkpoint": ("model", "trial"),
    "_push_from_checkpoint": ("checkpoint_folder",),
    "_load_best_model": (),
}
"""What is wrapped, with the parameters it must take, in this order."""


@hookimpl
def evoprompt_attach(request: AttachRequest) -> Attachment | None:
    """Binds the engine to a ``GRPOTrainer`` or ``RLOOTrainer``; None for any other trainer."""
    trainer = request.trainer
    if request.adapter not in (None, "trl"):
        return None
    if _is_instance(trainer, _ASYNC):
        raise AttachError(
            "AsyncGRPOTrainer samples and scores in a child process and has no generation batch "
            "in which to place an instruction; required: GRPOTrainer or RLOOTrainer; "
            "use GRPOTrainer with the same arguments"
        )
    if not _is_instance(trainer, _SUPPORTED):
        return None
    _require_version()
    _require_methods(trainer)
    from evoprompt_trl.attachment import TrlAttachment

    return TrlAttachment(cast("HostTrainer", trainer), request.engine, request.render)


def _is_instance(trainer: object, classes: dict[str, str]) -> bool:
    """Whether ``trainer`` is of one of these classes, none of which is imported to find out."""
    loaded = (getattr(sys.modules.get(module), name, None) for module, name in classes.items())
    return any(isinstance(trainer, found) for found in loaded if isinstance(found, type))


def _require_version() -> None:
    version = str(getattr(sys.modules.get("trl"), "__version__", "0"))
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if numbers < MINIMUM:
        wanted = ".".join(map(str, MINIMUM))
        raise AttachError(
            f"TRL {version} is too old; required: trl>={wanted}; "
            f'pip install --upgrade "trl>={wanted}"'
        )


def _require_methods(trainer: object) -> None:
    """Fails now, and clearly, if a later TRL has moved what the adapter wraps."""
    for name, wanted in _METHODS.items():
        # Of the class: what somebody has put around a method of this object need not name things.
        method = getattr(type(trainer), name, None)
        given = tuple(inspect.signature(method).parameters)[1:] if callable(method) else ()
        if given[: len(wanted)] != wanted:
            version = getattr(sys.modules.get("trl"), "__version__", "of unknown version")
            found = f"{name}({', '.join(given)})" if callable(method) else f"no {name}"
            raise AttachError(
                f"{type(trainer).__qualname__} of TRL {version} has {found}; required: "
                f"{name}({', '.join(wanted)}); use a TRL that evoprompt was tested with, "
                "see docs/adapters.md, or report it"
            )
