"""Supervised training on given tokens with TRL's ``SFTTrainer``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import datasets
from evoprompt_tiny.hosts import CONTEXT_TOKENS
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast, PrinterCallback
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from evoprompt_search_qa.training.settings import FitSettings


@dataclass(frozen=True, slots=True)
class Example:
    """One text to learn.

    Attributes:
        ids: prompt and response.
        mask: 1 for each token to learn, 0 for what was only read.
    """

    ids: Sequence[int]
    mask: Sequence[int]


def fit(
    policy: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    examples: Sequence[Example],
    settings: FitSettings,
    seed: int,
    directory: Path,
) -> None:
    """Trains ``policy`` in place.

    Args:
        policy: the weights to change.
        tokenizer: of the policy.
        examples: at least one.
        settings: how.
        seed: of the order of the examples.
        directory: where the trainer may write.
    """
    datasets.disable_progress_bars()
    rows = [{"input_ids": [*one.ids], "completion_mask": [*one.mask]} for one in examples]
    trainer = SFTTrainer(
        model=policy,
        args=SFTConfig(
            output_dir=str(directory),
            seed=seed,
            learning_rate=settings.learning_rate,
            num_train_epochs=settings.epochs,
            per_device_train_batch_size=settings.batch,
            max_length=CONTEXT_TOKENS,
            completion_only_loss=True,
            weight_decay=0.0,
            bf16=False,
            gradient_checkpointing=False,
            use_cpu=True,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            dataloader_pin_memory=False,
        ),
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    # The run has its own display; TRL's lines would tear it.
    trainer.remove_callback(PrinterCallback)
    trainer.train()
