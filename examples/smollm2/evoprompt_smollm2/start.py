"""A short supervised start, for a task that a model cannot begin to do by itself."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from datasets import Dataset
from evoprompt_tiny.demonstrations import Example
from evoprompt_trl.precision import native_bf16
from transformers import (
    AutoModelForCausalLM,
    DataCollatorForSeq2Seq,
    PreTrainedTokenizerBase,
    Trainer,
    TrainingArguments,
    set_seed,
)

from evoprompt.experiments.hosts.trl.generation import load_tokenizer
from evoprompt.storage import write_whole

NOTE = "supervised.json"
"""File with the note on how a model was started."""

Draw = Callable[[random.Random], Example]
"""Draws a demonstration."""


@dataclass(frozen=True, slots=True)
class Start:
    """What decides a supervised start.

    Attributes:
        demonstrations: how many to learn from, each seen once.
        learning_rate: peak of AdamW's, which warms up and then falls to 0 in a straight line.
        batch: demonstrations a step.
        micro_batch: demonstrations in one forward and backward pass; two take 4 GiB.
        seed: of the demonstrations and their order.
        threads: CPU threads.
    """

    demonstrations: int = 800
    learning_rate: float = 1e-4
    batch: int = 16
    micro_batch: int = 2
    seed: int = 0
    threads: int = 1


def start(
    model: Path,
    folder: Path,
    what: Start,
    demonstrations: Callable[[PreTrainedTokenizerBase], Draw],
) -> None:
    """Writes ``folder``, a model that learned from demonstrations.

    Only what the demonstrators wrote themselves is learned.

    Args:
        model: folder of the model to start from.
        folder: to write, whole or not at all; empty or missing.
        what: how.
        demonstrations: what draws them, for the tokenizer of the model.
    """
    torch.set_num_threads(what.threads)
    set_seed(what.seed)
    tokenizer = load_tokenizer(str(model))
    draw, rng = demonstrations(tokenizer), random.Random(what.seed)
    shown = [draw(rng) for _ in range(what.demonstrations)]
    policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    trainer = Trainer(
        policy,
        TrainingArguments(
            output_dir=str(partial),
            num_train_epochs=1,
            per_device_train_batch_size=what.micro_batch,
            gradient_accumulation_steps=what.batch // what.micro_batch,
            learning_rate=what.learning_rate,
            warmup_steps=10,
            train_sampling_strategy="group_by_length",  # so that little is padding
            bf16=native_bf16(),
            use_cpu=not torch.cuda.is_available(),
            logging_steps=5,
            save_strategy="no",
            report_to=[],
            seed=what.seed,
        ),
        DataCollatorForSeq2Seq(tokenizer),
        Dataset.from_list([{"input_ids": one.ids, "labels": one.labels} for one in shown]),
    )
    trainer.train()
    trainer.save_model(str(partial))
    tokenizer.save_pretrained(partial)
    losses = [log["loss"] for log in trainer.state.log_history if "loss" in log]
    note = {**asdict(what), "base": model.name, "loss": losses}
    write_whole(partial / NOTE, json.dumps(note, indent=2) + "\n")
    if folder.exists():
        folder.rmdir()
    partial.rename(folder)
