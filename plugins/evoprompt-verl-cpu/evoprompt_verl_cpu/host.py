"""Host ``verl`` with settings for small policies on CPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import JsonValue

from evoprompt.agents.tasks import Plan
from evoprompt.experiments.hosts.training import training_plan
from evoprompt.experiments.hosts.verl.host import VerlHost
from evoprompt_verl_cpu import ROLLOUT, environment
from evoprompt_verl_cpu.settings import CpuSettings

if TYPE_CHECKING:
    from evoprompt.agents.tasks import Task, Trial

_QUIET_AND_SMALL = {
    "OMP_NUM_THREADS": "1",
    "TQ_NUM_THREADS": "1",
    "VERL_LOGGING_LEVEL": "ERROR",
    "TQDM_DISABLE": "1",
}
"""Many processes share few cores; and a run has its own display, which other output would disturb.
"""

_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
ARGUMENTS: Mapping[str, JsonValue] = {
    "actor_rollout_ref.model.use_remove_padding": False,
    "actor_rollout_ref.model.enable_gradient_checkpointing": False,
    "+actor_rollout_ref.model.override_config.attn_implementation": "sdpa",
    f"{_ACTOR}.fsdp_config.model_dtype": "fp32",
    f"{_ACTOR}.fsdp_config.use_torch_compile": False,
    f"+{_ACTOR}.fsdp_config.mixed_precision.param_dtype": "fp32",
    f"{_ACTOR}.use_torch_compile": False,
    f"{_ACTOR}.optim.lr_scheduler_type": "constant",
    f"{_ACTOR}.optim.betas": [0.9, 0.95],
    f"{_ACTOR}.optim.weight_decay": 0.0,
    f"{_ACTOR}.optim.clip_grad": 1.0,
    f"{_ACTOR}.loss_agg_mode": "token-mean",
    f"{_ROLLOUT}.name": ROLLOUT,
    f"{_ROLLOUT}.load_format": "auto",
    f"{_ROLLOUT}.agent.num_workers": 1,
    "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
    "trainer.device": "cpu",
    "+ray_kwargs.ray_init.address": "local",
    "+ray_kwargs.ray_init.num_gpus": 1,
    "ray_kwargs.ray_init.num_cpus": 6,
    "+ray_kwargs.ray_init.include_dashboard": False,
    "+ray_kwargs.ray_init.object_store_memory": 300_000_000,
}
"""veRL on CPUs, as close to TRL's ``GRPOTrainer`` as veRL comes.

Both normalise the advantage in a group, average the loss over the tokens of the step, clip at 0.2,
take no KL penalty and make one update a step with the same AdamW.
"""


class VerlOnCpu(VerlHost):
    """Host by veRL on CPUs, for small policies.

    Args:
        settings: the host section of a configuration; its settings of veRL win.
    """

    Settings = CpuSettings

    def __init__(self, settings: CpuSettings) -> None:
        changed = {
            "environment": {**environment(), **_QUIET_AND_SMALL, **settings.environment},
            "arguments": {**ARGUMENTS, **settings.arguments},
        }
        super().__init__(settings.model_copy(update=changed), seeded=True)

    def plan(self, task: Task, trial: Trial) -> Plan:
        """Return the work and the needs of ``trial``, without memory and time."""
        return training_plan(
            task,
            self.settings,
            trial,
            self.settings.limits(task),
            needs=task.needs(),
            size=None,
            gpus=0,
            trainers=0,
            gpu_gib=None,
            host_gib=None,
            checkpoint=0,
            checkpoints=None,
            packages=(),
        )
