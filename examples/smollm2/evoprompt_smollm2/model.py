"""Turns the weights into a folder that ``transformers`` loads, whole or not at all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from evoprompt.errors import InputError
from evoprompt.storage import require_folder, write_whole
from evoprompt_smollm2.package import REQUIREMENT, SHA256, WEIGHTS

NOTE = "smollm2.json"
"""File with the note on where a folder is from; written last, so that it says all is there."""

ORIGIN = {"package": REQUIREMENT, "sha256": SHA256, "licence": "Apache-2.0"}
TEMPLATE = Path(__file__).parent / "chat_template.jinja"
END = "<|im_end|>"

CARD = f"""\
---
license: apache-2.0
base_model: HuggingFaceTB/SmolLM2-135M-Instruct
---
# SmolLM2-135M-Instruct

The weights of four bits in the package `{REQUIREMENT}`, written out by `evoprompt model smollm2`.
The chat template is not the model's own: it writes the same, and shows tools and calls, too.
"""

QUESTION, ANSWER = "What is the capital of France?", "Paris"
"""Asked of every folder when it is made: a wrong conversion answers with noise."""


def is_whole(folder: Path) -> bool:
    """Whether :func:`convert` finished a folder."""
    return (folder / NOTE).is_file()


def require_empty(folder: Path) -> None:
    """Returns if a model may be written to ``folder``; to be asked before anything is fetched.

    Raises:
        InputError: there is something in it, or it cannot be a folder.
    """
    require_folder(folder, "FOLDER")
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(
            f"{folder} has something else in it; required: a new folder; name one, or remove this"
        )


def convert(weights: Path, folder: Path) -> None:
    """Writes the model in ``folder``: weights, tokenizer, and a chat template that has tools.

    Args:
        weights: the GGUF file.
        folder: to write; empty or missing.

    Raises:
        InputError: the folder is not empty, or what was read is not the model.
    """
    require_empty(folder)
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    model, tokenizer = _load(weights)
    _check(model, tokenizer)
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    write_whole(partial / "README.md", CARD)
    write_whole(partial / NOTE, json.dumps(ORIGIN, indent=2) + "\n")
    if folder.exists():
        folder.rmdir()
    partial.rename(folder)


def _load(weights: Path) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    where, name = str(weights.parent), weights.name
    tokenizer = AutoTokenizer.from_pretrained(where, gguf_file=name)
    model = AutoModelForCausalLM.from_pretrained(where, gguf_file=name, dtype=torch.float32)
    tokenizer.eos_token = tokenizer.pad_token = END
    tokenizer.chat_template = TEMPLATE.read_text(encoding="utf-8")
    tokenizer.clean_up_tokenization_spaces = False
    tokenizer.model_max_length = model.config.max_position_embeddings
    end = tokenizer.eos_token_id
    model.config.eos_token_id = model.config.pad_token_id = end
    model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        bos_token_id=tokenizer.bos_token_id, eos_token_id=end, pad_token_id=end
    )
    return model, tokenizer


def _check(model: Any, tokenizer: Any) -> None:
    asked = [{"role": "user", "content": QUESTION}]
    prompt = tokenizer.apply_chat_template(
        asked, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    said = model.generate(**prompt, max_new_tokens=12, do_sample=False)
    text = str(tokenizer.decode(said[0, prompt["input_ids"].shape[1] :], skip_special_tokens=True))
    if ANSWER not in text:
        raise InputError(
            f"the model that was read from {WEIGHTS} says {text!r} when asked {QUESTION!r}; "
            f"required: an answer with {ANSWER!r}; this version of transformers may read such "
            "files otherwise: use the one in constraints.txt"
        )
