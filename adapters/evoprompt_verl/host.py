"""What the adapter relies on in veRL and its TransferQueue, and nothing else.

The names are those of veRL 0.9.0 and 0.9.1; :func:`require_methods` checks that they are there, in
the preflight and again before anything is bound. Methods with an underscore are private to veRL.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from evoprompt.errors import InputError

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from tensordict import TensorDict

Methods = Mapping[str, tuple[str, ...]]
"""Names of methods, with the parameters that each must take, in this order."""

TRAINER_METHODS: Methods = {
    "fit": ("agent_loop_manager",),
    "_save_checkpoint": (),
    "_validate": (),
    "_compute_reward_colocate": ("batch", "metrics"),
}
"""What is wrapped in a ``PPOTrainer``."""

BUFFER_METHODS: Methods = {"sample": ("global_steps", "partition_id", "batch_size")}
"""What is wrapped in a ``ReplayBuffer``."""

Tag = Mapping[str, Any]
"""What TransferQueue knows about a key without reading its value."""

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
        self, keys: list[str], partition_id: str, *, tags: list[dict[str, Any]]
    ) -> object:
        """Adds tags to keys."""
        ...

    def kv_batch_get(
        self, keys: list[str], partition_id: str, select_fields: list[str]
    ) -> TensorDict:
        """The fields of keys, one row a key."""
        ...

    def kv_list(self, partition_id: str) -> dict[str, dict[str, dict[str, Any]]] | None:
        """The tags of all keys of a partition, by partition and key."""
        ...

    def kv_clear(self, keys: list[str], partition_id: str) -> None:
        """Forgets keys."""
        ...


class HostTokenizer(Protocol):
    """The part of the run's tokenizer in use."""

    @property
    def all_special_tokens(self) -> Sequence[str]:
        """Control tokens."""
        ...

    def __call__(self, text: str, *, add_special_tokens: bool) -> Mapping[str, Any]:
        """Token ids of a text under ``"input_ids"``."""
        ...

    def apply_chat_template(
        self, conversation: Sequence[Any], **settings: Any
    ) -> Mapping[str, Any]:
        """Token ids of conversations under ``"input_ids"``."""
        ...

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """The text of token ids."""
        ...


class HostReplayBuffer(Protocol):
    """Waits for finished groups and takes them out of the queue."""

    def sample(
        self, global_steps: int, partition_id: str, batch_size: int
    ) -> tuple[HostBatch, Metrics]:
        """``batch_size`` groups that ended, and numbers about them."""
        ...


class HostManager(Protocol):
    """Hands prompts to the agent loops."""

    def generate_sequences(self, prompts: TensorDict) -> None:
        """Starts the rollouts of ``prompts``; the results go to the queue."""
        ...


class HostRewardLoop(Protocol):
    """veRL's ``RewardLoopManager``."""

    @property
    def reward_loop_worker_handles(self) -> Sequence[object] | None:
        """Who scores while rollouts go on; None when a colocated model scores afterwards."""
        ...


class HostWeights(Protocol):
    """veRL's ``CheckpointEngineManager``: moves weights to the rollout replicas."""

    def sleep_replicas(self) -> None:
        """Frees the replicas' memory."""
        ...

    def update_weights(self, global_steps: int | None = None) -> object:
        """Wakes the replicas with the policy's weights."""
        ...


class HostTrainer(Protocol):
    """veRL's V1 ``PPOTrainer``."""

    config: DictConfig
    tokenizer: HostTokenizer
    global_steps: int
    parameter_sync_step: int
    local_trigger_step: int
    replay_buffer: HostReplayBuffer
    reward_loop_manager: HostRewardLoop
    checkpoint_manager: HostWeights
    train_dataset: object
    val_dataset: object

    def fit(self, agent_loop_manager: HostManager) -> None:
        """Trains to the end."""
        ...

    def _save_checkpoint(self) -> None: ...

    def _load_checkpoint(self) -> None: ...

    def _validate(self) -> dict[str, float]: ...

    def _compute_reward_colocate(
        self, batch: HostBatch, metrics: Metrics | None = None
    ) -> HostBatch: ...


def require_methods(owner: object, methods: Methods) -> None:
    """Fails early, and clearly, if a later veRL has moved what the adapter wraps.

    Args:
        owner: an object or a class of veRL's.
        methods: what is wrapped in it.

    Raises:
        InputError: a method is missing or takes other parameters.
    """
    kind = owner if isinstance(owner, type) else type(owner)
    for name, required in methods.items():
        method = getattr(owner, name, None)
        given = tuple(inspect.signature(method).parameters) if callable(method) else ()
        given = given[1:] if isinstance(owner, type) else given
        if not callable(method) or given[: len(required)] != required:
            found = f"{name}({', '.join(given)})" if callable(method) else f"no {name}"
            raise InputError(
                f"{kind.__qualname__} has {found}; required: {name}({', '.join(required)}); use a "
                "veRL that evoprompt was tested with, see docs/verl.md, or report it"
            )
