"""Recognises TRL's trainers. Imports neither TRL nor torch to find out."""

from __future__ import annotations

import inspect
import sys
import warnings
from typing import TYPE_CHECKING, NoReturn, cast

from packaging.version import Version

from evoprompt.errors import AttachError
from evoprompt.hookspecs import hookimpl
from evoprompt_trl.host import BUFFERS, METHODS, MINIMUM, SINGLE_TURN, TESTED

if TYPE_CHECKING:
    from evoprompt.attachment import Attachment, AttachRequest
    from evoprompt_trl.host import HostTrainer

_SUPPORTED = {
    "trl.trainer.grpo_trainer": "GRPOTrainer",
    "trl.trainer.rloo_trainer": "RLOOTrainer",
}
_ASYNC = {"trl.experimental.async_grpo.async_grpo_trainer": "AsyncGRPOTrainer"}


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
    version = str(getattr(sys.modules.get("trl"), "__version__", "0"))
    _require_version(version)
    _require_names(trainer, version)
    _require_tools_on_server(trainer, version)
    from evoprompt_trl.attachment import TrlAttachment

    return TrlAttachment(
        cast("HostTrainer", trainer),
        request.engine,
        request.render,
        request.probe,
        request.resume,
    )


def _is_instance(trainer: object, classes: dict[str, str]) -> bool:
    """Whether ``trainer`` is of one of these classes, none of which is imported to find out."""
    loaded = (getattr(sys.modules.get(module), name, None) for module, name in classes.items())
    return any(isinstance(trainer, found) for found in loaded if isinstance(found, type))


def _require_version(version: str) -> None:
    if Version(version) < Version(MINIMUM):
        raise AttachError(
            f"TRL {version} is too old; required: trl>={MINIMUM}; "
            f'pip install --upgrade "trl>={MINIMUM}"'
        )
    if Version(version).release[:2] > Version(TESTED).release:
        warnings.warn(
            f"TRL {version} is newer than {TESTED}, the newest that evoprompt was tested with; "
            f'should anything look odd: pip install "trl=={TESTED}.*"',
            stacklevel=2,
        )


def _require_names(trainer: object, version: str) -> None:
    """Fails now, and clearly, if a later TRL has moved what the adapter touches."""
    for name, wanted in METHODS.items():
        # Of the class: what somebody has put around a method of this object need not name things.
        method = getattr(type(trainer), name, None)
        given = tuple(inspect.signature(method).parameters)[1:] if callable(method) else ()
        if not callable(method) or given[: len(wanted)] != wanted:
            found = f"{name}({', '.join(given)})" if callable(method) else f"no {name}"
            _refuse(trainer, version, found, f"{name}({', '.join(wanted)})")
    for name in BUFFERS:
        if not hasattr(trainer, name):
            _refuse(trainer, version, f"no {name}", name)


def _refuse(trainer: object, version: str, found: str, required: str) -> NoReturn:
    raise AttachError(
        f"{type(trainer).__qualname__} of TRL {version} has {found}; required: {required}; use a "
        f'TRL that evoprompt was tested with, pip install "trl=={TESTED}.*", or report it'
    )


def _require_tools_on_server(trainer: object, version: str) -> None:
    """TRL 1.11 and older sample one rollout of a group after a tool call, and lose the others."""
    server = getattr(trainer, "use_vllm", False) and getattr(trainer, "vllm_mode", "") == "server"
    method = getattr(type(trainer), SINGLE_TURN, None)
    sound = callable(method) and "num_generations" in inspect.signature(method).parameters
    if server and getattr(trainer, "tools", None) and not sound:
        raise AttachError(
            f"TRL {version} has tools with vllm_mode 'server', in which it sends only every "
            "num_generations-th conversation after a tool call; required: vllm_mode 'colocate', "
            f'or a newer TRL, pip install "trl=={TESTED}.*"'
        )
