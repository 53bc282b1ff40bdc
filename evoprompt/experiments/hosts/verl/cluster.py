"""Ray and the TransferQueue of one training; a process has one of each."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

import ray
import transfer_queue
from evoprompt_verl.cluster import equip
from omegaconf import DictConfig, OmegaConf
from verl.trainer.constants_ppo import get_ppo_ray_runtime_env


def start(config: DictConfig, environment: Mapping[str, str]) -> None:
    """Start, or join, the cluster of ``config``; end the one that ran before in this process.

    A trial does not signal its end: it is evaluated and saved after its training. So its workers
    run until the next trial starts, or the process ends.

    Args:
        config: of veRL.
        environment: variables of every process, also on a cluster that already ran.
    """
    stop()
    config.transfer_queue.enable = True
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # By default workers step back behind everything else on the machine, even behind a busy shell.
    os.environ.setdefault("RAY_worker_niceness", "0")
    equip(config, {})  # on several machines every process works in this one's directory
    runtime = get_ppo_ray_runtime_env(config)
    runtime["env_vars"] |= {**environment, "TRANSFER_QUEUE_ENABLE": "1"}
    settings = OmegaConf.to_container(config.ray_kwargs.ray_init, resolve=True)
    assert isinstance(settings, dict)
    runtime_settings = settings.pop("runtime_env", None) or {}
    runtime["env_vars"].update(runtime_settings.pop("env_vars", None) or {})
    runtime.update({name: value for name, value in runtime_settings.items() if value is not None})
    ray.init(
        **{str(name): value for name, value in settings.items()},
        runtime_env=runtime,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    transfer_queue.init(config.transfer_queue)


def stop() -> None:
    """End the cluster of :func:`start`; do nothing if none runs."""
    if ray.is_initialized():
        transfer_queue.close()
        ray.shutdown()
