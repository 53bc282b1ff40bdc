"""veRL on a machine without an accelerator: a platform and a rollout backend, both running code.

veRL finds them through its own registries, in every process that has :func:`environment`; a run
then names the backend with ``actor_rollout_ref.rollout.name=transformers`` and sets
``trainer.device=cpu``. It is for small policies: the tiny example and the tests train with it.
"""

from __future__ import annotations

from collections.abc import Mapping

ROLLOUT = "transformers"
"""Name of the rollout backend in veRL's registries."""


def environment() -> Mapping[str, str]:
    """Return variables that must be set before veRL is imported, in every process of a run.

    ``VERL_ENGINE_DEVICE`` lets veRL's engine registry choose FSDP, which is device-agnostic. The
    time limit is TransferQueue's for an answer of its controller, in seconds: a trajectory for
    which it is exceeded is lost and the run ends, and few cores with many processes are slow.
    """
    return {
        "VERL_USE_EXTERNAL_MODULES": "evoprompt_verl_cpu.platform,evoprompt_verl_cpu.rollout",
        "VERL_PLATFORM": "cpu",
        "VERL_ENGINE_DEVICE": "cuda",
        "TQ_DATA_UPDATE_RESPONSE_TIMEOUT": "600",
    }
