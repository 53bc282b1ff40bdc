"""Parts of veRL and its TransferQueue that the adapter relies on: these and no more.

The names are those of veRL 0.9.0 and 0.9.1, and every one is in a list here: :func:`require_host`
looks for all of them, in the preflight and again when attaching. Names with an underscore are
private to veRL. What ``evoprompt run`` needs beyond them is in :data:`RUN`.

Methods of objects are wrapped because veRL's own extension points take classes by name before a
trainer is made, and ``attach`` is given a trainer. Of them, ``agent_loop_manager_class`` is what
``+evoprompt=...`` names. ``checkpoint_callback_class`` (since 0.9.1) is called when a checkpoint is
complete: one that a kill has cut off after veRL's files would have no state of the engine. A
``custom_sampler`` takes ``sync_refill_failed_groups`` and ``gen_batch_size`` from its users.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from evoprompt.agents.tokenizer import Tokenizer
from evoprompt.hosting.attachment import methods_of, require_attributes, require_methods
from evoprompt.support.errors import AttachError

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from tensordict import TensorDict

Methods = Mapping[str, tuple[str, ...]]
"""Names of methods or functions, with the parameters that each must take, in this order."""

FUNCTIONS: Mapping[str, Methods] = {
    "verl.experimental.agent_loop.utils": {"resolve_config_path": ("config_path",)},
    "verl.tools.tool_registry": {"load_all_tools": ("tool_config_path", "function_tool_path")},
    "verl.utils": {"hf_tokenizer": ()},
    "verl.utils.fs": {"copy_to_local": ("src",)},
    "verl.utils.import_utils": {"load_class_from_fqn": ("fqn",)},
    "ray._private.utils": {"read_ray_address": ("temp_dir",)},
}
"""What is called of other modules, beside those of :class:`HostQueue`."""

SOURCES: Mapping[str, tuple[str, ...]] = {
    "verl.trainer.ppo.v1.agent_loop_tq": (
        "__rollout_n__",
        "{uid}_{session_id}_{i}",
        "def _agent_loop_postprocess(",
    ),
    "verl.experimental.agent_loop.agent_loop": ("await self._agent_loop_postprocess(output",),
    "verl.trainer.ppo.v1.replay_buffer": ('key.split("_")[0]',),
    "verl.trainer.constants_ppo": ("RAY_JOB_CONFIG_JSON_ENV_VAR",),
}
"""Conventions without a name to ask for: texts that must stand in the source of a module."""

RUN: Mapping[tuple[str, str], Methods] = {
    ("verl.trainer.ppo.v1.trainer_sync", "PPOTrainerSync"): {
        "init": (),
        "on_train_begin": (),
        "on_step_begin": (),
        "on_step_end": (),
        "get_llm_client": (),
        "get_teacher_client": (),
        "get_reward_handles": (),
    },
    ("verl.workers.engine_workers", "ActorRolloutRefWorker"): {
        "save_checkpoint": ("local_path", "hdfs_path", "global_step", "max_ckpt_to_keep")
    },
    ("verl.experimental.agent_loop.agent_loop", "AgentLoopBase"): {
        "ct_build_initial_tokens": ("messages", "tools")
    },
    ("verl.workers.rollout.llm_server", "LLMServerClient"): {
        "generate": ("request_id", "prompt_ids", "sampling_params")
    },
    ("transfer_queue", ""): {"init": (), "close": ()},
    ("verl.trainer.constants_ppo", ""): {"get_ppo_ray_runtime_env": ("config",)},
    ("verl.trainer.ppo.utils", ""): {
        "need_critic": ("config",),
        "need_reference_policy": ("config",),
    },
    ("verl.utils.config", ""): {
        "validate_config": ("config", "use_reference_policy", "use_critic")
    },
}
"""What the host ``verl`` of ``evoprompt run`` overrides or calls, by module and class.

It also reads ``config``, ``tokenizer`` and ``server_manager`` of an agent loop, the keys of groups
that are out of the replay buffer, and the workers of its trainer, and sets ``total_training_steps``
of the latter and ``poll_interval`` of the former.
"""

RUN_SOURCES: Mapping[str, tuple[str, ...]] = {
    "verl.experimental.agent_loop.agent_loop": (
        "self.config = ",
        "self.tokenizer = ",
        "self.server_manager = ",
    ),
    "verl.trainer.ppo.v1.trainer_base": ("self.total_training_steps", "self.actor_rollout_wg"),
    "verl.trainer.ppo.v1.replay_buffer": (
        "time.sleep(self.poll_interval)",
        "self.pending_keys",
        "self.running_keys",
    ),
}
"""Attributes that exist in objects only, as they stand in the source of their module."""

TRAINING = "train"
"""The queue's partition that veRL trains from."""

VALIDATION = "val"
"""Where veRL puts what its validation rolls out: training never sees it."""

REMEDY = "use a veRL that evoprompt was tested with, see docs/reference/verl.md, or report it"

Metrics = dict[str, Any]
"""What a step sends to veRL's loggers."""


class HostBatch(Protocol):
    """veRL's ``KVBatchMeta``: the keys of trajectories that wait in a partition of the queue."""

    keys: list[str]
    tags: list[dict[str, Any]]
    partition_id: str


class HostQueue(Protocol):
    """The part of the module ``transfer_queue`` in use."""

    def kv_batch_put(
        self,
        keys: list[str],
        partition_id: str,
        *,
        fields: TensorDict | None = None,
        tags: list[dict[str, Any]] | None = None,
    ) -> object:
        """Add fields and tags to keys."""

    def kv_batch_get(
        self, keys: list[str], partition_id: str, select_fields: list[str]
    ) -> TensorDict:
        """Return the fields of keys, one row per key."""

    def kv_list(self, partition_id: str) -> dict[str, dict[str, dict[str, Any]]] | None:
        """Return the tags of all keys of a partition, by partition and key."""

    def kv_clear(self, keys: list[str], partition_id: str) -> None:
        """Remove keys."""


class HostReplayBuffer(Protocol):
    """Waits for finished groups and takes them out of the queue."""

    def sample(
        self, global_steps: int, partition_id: str, batch_size: int
    ) -> tuple[HostBatch, Metrics]:
        """``batch_size`` groups that ended, and numbers about them."""


class HostManager(Protocol):
    """veRL's ``AgentLoopManagerTQ``: hands prompts to the agent loops."""

    def generate_sequences(self, prompts: TensorDict) -> None:
        """Start the rollouts of ``prompts``; the results go to the queue."""


class HostRewardLoop(Protocol):
    """veRL's ``RewardLoopManager``."""

    @property
    def reward_loop_worker_handles(self) -> Sequence[object] | None:
        """Return the workers that score during rollouts; None if a model scores afterwards."""


class HostWeights(Protocol):
    """veRL's ``CheckpointEngineManager``: moves weights to the rollout replicas."""

    def sleep_replicas(self) -> None:
        """Free the replicas' memory."""

    def update_weights(self, global_steps: int | None = None) -> object:
        """Wake the replicas with the policy's weights."""


class VerlTrainer(Protocol):
    """veRL's V1 ``PPOTrainer``."""

    config: DictConfig
    tokenizer: Tokenizer
    global_steps: int
    parameter_sync_step: int
    local_trigger_step: int
    replay_buffer: HostReplayBuffer
    reward_loop_manager: HostRewardLoop
    checkpoint_manager: HostWeights
    train_dataset: object
    val_dataset: object

    def fit(self, agent_loop_manager: HostManager) -> None:
        """Train to the end."""

    def _save_checkpoint(self) -> None: ...

    def _load_checkpoint(self) -> None: ...

    def _validate(self) -> dict[str, float]: ...

    def _compute_reward_colocate(
        self, batch: HostBatch, metrics: Metrics | None = None
    ) -> HostBatch: ...


ATTRIBUTES = (
    *VerlTrainer.__annotations__,
    "reward_loop_manager.reward_loop_worker_handles",
    "checkpoint_manager.sleep_replicas",
    "checkpoint_manager.update_weights",
)
"""What is read, or called, of an initialised ``PPOTrainer``."""


def require_host() -> None:
    """Check early that veRL still has all parts that the adapter uses.

    Raises:
        AttachError: something is missing or takes other parameters.
    """
    v1 = "verl.trainer.ppo.v1"
    _require(
        {
            (f"{v1}.trainer_base", "PPOTrainer"): methods_of(VerlTrainer),
            (f"{v1}.replay_buffer", "ReplayBuffer"): methods_of(HostReplayBuffer),
            (v1, "AgentLoopManagerTQ"): {**methods_of(HostManager), "create": ()},
            ("transfer_queue", ""): methods_of(HostQueue),
            **{(module, ""): functions for module, functions in FUNCTIONS.items()},
        },
        SOURCES,
    )


def require_run() -> None:
    """Check the methods that the host ``verl`` of ``evoprompt run`` uses beyond the adapter.

    Raises:
        AttachError: something is missing or takes other parameters.
    """
    _require(RUN, RUN_SOURCES)


def _require(
    owners: Mapping[tuple[str, str], Methods], sources: Mapping[str, tuple[str, ...]]
) -> None:
    for (name, kind), methods in owners.items():
        owner = _module(name)
        if kind:
            require_attributes(owner, [kind], REMEDY)
        require_methods(getattr(owner, kind) if kind else owner, methods, REMEDY)
    for name, texts in sources.items():
        source = inspect.getsource(_module(name))
        for text in texts:
            if text not in source:
                problem = f"{name} does not mention {text}; required: that it does"
                raise AttachError(f"{problem}; {REMEDY}")


def _module(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        raise AttachError(
            f"{name} cannot be imported ({error}); required: {name}; {REMEDY}"
        ) from error
