"""The files of a tiny policy: weights and tokenizer as ``transformers`` writes them."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import torch
import transformers
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from evoprompt.errors import InputError


def load_policy(folder: Path) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """The policy in ``folder`` and its tokenizer.

    Raises:
        InputError: the folder holds no policy.
    """
    if not (folder / "model.safetensors").is_file():
        raise InputError(
            f"policy is {folder}, which holds no model.safetensors; required: a folder written by "
            "'evoprompt search-qa pretrain'; give another or make one"
        )
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    policy = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return policy, PreTrainedTokenizerFast.from_pretrained(folder)


def save_policy(policy: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Writes ``folder`` as :func:`load_policy` reads it, whole or not at all."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        written = Path(scratch) / folder.name
        policy.save_pretrained(written)
        tokenizer.save_pretrained(written)
        if folder.exists():
            shutil.rmtree(folder)
        written.rename(folder)
