"""Parts of a TRL trainer that the adapter relies on: these and no more.

The names with an underscore are private to TRL. They have kept their meaning from TRL 1.0 to 1.16.
All of them are listed here, and ``plugin.py`` checks that they are there before anything is bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, cast

from evoprompt.agents.tokenizer import Tokenizer

if TYPE_CHECKING:
    import torch
    from accelerate import Accelerator
    from transformers import (
        PreTrainedModel,
        TrainerCallback,
        TrainerState,
        TrainingArguments,
    )

MINIMUM = "1.0"
"""The oldest TRL that rolls multi-turn episodes out without vLLM."""

TESTED = "1.16"
"""The newest TRL that the tests were run with; a newer one is announced by a warning."""

EXTRA_LOGS = "_pending_extra_logs"
"""What reward functions have logged by ``log_extra`` in this batch, a list per column."""

BUFFERS = ("_metrics", "_logs", EXTRA_LOGS, "_pending_metrics")
"""Containers that the trainer fills while it generates and scores."""

SHOWN_TOOLS = "evoprompt_tools"
"""Set on a trainer: schemas of tools that its ``rollout_func`` shows by the chat template."""

TOKENIZE = "_tokenize_prompts"
"""Makes token ids of prompts, with the trainer's tools; wrapped where their descriptions evolve."""

LOADED_STEP = "_last_loaded_step"
"""Says which weights vLLM holds; there is none without vLLM. The host ``trl`` sets it, too."""

INSTRUCTION_COLUMN = "evoprompt_instruction"
"""Column by which reward functions are given the instruction; environments are not."""

Row = dict[str, Any]
"""One row of the trainer's dataset, as its data loader yields it."""

Batch = dict[str, Any]
"""What TRL makes of a list of rows: padded tensors, local to the process."""

Generate = Callable[[list[Row]], Batch]
"""The trainer's own ``_generate_and_score_completions``."""


class TrlTrainer(Protocol):
    """A ``GRPOTrainer`` or ``RLOOTrainer``; ``plugin.py`` looks for every method that is here."""

    accelerator: Accelerator
    args: TrainingArguments
    chat_template_kwargs: dict[str, Any]
    max_completion_length: int
    model: PreTrainedModel
    num_generations: int
    num_generations_eval: int
    processing_class: Any
    reward_func_names: list[str]
    reward_funcs: list[Any]
    reward_weights: torch.Tensor
    state: TrainerState

    def _generate_and_score_completions(self, inputs: list[Row]) -> Batch: ...

    def _generate(self, prompts: list[Any]) -> Any: ...

    def _calculate_rewards(
        self,
        inputs: list[Row],
        prompts: list[Any],
        completions: list[Any],
        completion_ids_list: list[list[int]],
    ) -> torch.Tensor: ...

    def _save_checkpoint(self, model: object, trial: object) -> None: ...

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None: ...

    def _load_best_model(self) -> None: ...

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int
    ) -> tuple[torch.Tensor | None, ...]: ...

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Send ``logs`` to every reporter."""

    def train(self, resume_from_checkpoint: str | bool | None = None) -> object:
        """Trains, from a checkpoint if one is named."""

    def add_callback(self, callback: TrainerCallback) -> None:
        """Add a callback."""

    def remove_callback(self, callback: TrainerCallback) -> None:
        """Remove a callback."""


def tokenizer_of(trainer: TrlTrainer) -> Tokenizer:
    """Return the tokenizer: the processing class, or its tokenizer if it is a processor."""
    processor = trainer.processing_class
    return cast(Tokenizer, getattr(processor, "tokenizer", processor))


def has_environments(trainer: TrlTrainer) -> bool:
    """Return whether an environment may complete or write the prompts."""
    names = ("environment_factories", "environments")  # the latter until TRL 1.7
    return any(getattr(trainer, name, None) is not None for name in names)
