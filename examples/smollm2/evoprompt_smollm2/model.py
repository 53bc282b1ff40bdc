"""Conversion of weights in GGUF into a folder that ``transformers`` loads, whole or not at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoprompt.support.errors import InputError
from evoprompt.support.storage import require_folder, write_whole
from evoprompt.support.text import format_error
from evoprompt_smollm2.package import REQUIREMENT, SHA256

NOTE = "origin.json"
"""File with the note on a folder's origin; written last, so that it marks a complete folder."""

QUESTION = "What is the capital of France?"
"""Test question for every new folder: a wrong conversion answers with noise."""


@dataclass(frozen=True, slots=True)
class Model:
    """Properties of a model besides its weights.

    Attributes:
        origin: for the note.
        card: text of its README.md.
        template: a chat template in place of the one in the file.
        answer: required text in its answer to :data:`QUESTION`.
    """

    origin: Mapping[str, str]
    card: str
    template: str | None = None
    answer: str = ""


SMOLLM2 = Model(
    origin={"package": REQUIREMENT, "sha256": SHA256, "licence": "Apache-2.0"},
    card=f"""\
---
license: apache-2.0
base_model: HuggingFaceTB/SmolLM2-135M-Instruct
---
# SmolLM2-135M-Instruct

The weights of four bits in the package `{REQUIREMENT}`, written out by `evoprompt model smollm2`.
The chat template is not the model's own: it writes the same, and shows tools and calls, too.
""",
    template=(Path(__file__).parent / "chat_template.jinja").read_text(encoding="utf-8"),
    answer="Paris",
)


def of_file(weights: Path, sha256: str) -> Model:
    """Return the model of a user's GGUF file."""
    card = f"# {weights.stem}\n\n`{weights.name}`, written out by `evoprompt model gguf`.\n"
    return Model({"file": weights.name, "sha256": sha256}, card)


def is_whole(folder: Path) -> bool:
    """Return whether :func:`convert` finished a folder."""
    return (folder / NOTE).is_file()


def require_empty(folder: Path) -> None:
    """Check that a model may be written to ``folder``; called before a download.

    Raises:
        InputError: the folder is not empty, or cannot be a folder.
    """
    require_folder(folder, "FOLDER")
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(
            f"{folder} has something else in it; required: a new folder; name one, or remove this"
        )


def convert(weights: Path, folder: Path, properties: Model) -> str:
    """Write the model to ``folder``, and return its answer to :data:`QUESTION`.

    Args:
        weights: the GGUF file.
        folder: to write; empty or missing.
        properties: of the model, which are in no such file.

    Raises:
        InputError: the folder is not empty, the file cannot be read or is no model that chats, or
            its answer lacks the required text.
    """
    require_empty(folder)
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    model, tokenizer = _load(weights, properties.template)
    answer = _answer_of(model, tokenizer)
    if properties.answer not in answer:
        raise InputError(
            f"the model that was read from {weights.name} answers {QUESTION!r} with {answer!r}; "
            f"required: an answer with {properties.answer!r}; this version of transformers may "
            "read such files otherwise: use the one in constraints.txt"
        )
    partial.mkdir(parents=True)
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    write_whole(partial / "README.md", properties.card)
    write_whole(partial / NOTE, json.dumps(dict(properties.origin), indent=2) + "\n")
    if folder.exists():
        folder.rmdir()
    partial.rename(folder)
    return answer


def _load(weights: Path, template: str | None) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    end, pad = _special_tokens(weights)
    folder, name = str(weights.parent), weights.name
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
    # By default transformers takes those of the family's base model, which do not end a turn.
    tokenizer.eos_token, tokenizer.pad_token = end, pad
    tokenizer.chat_template = template or tokenizer.chat_template
    if tokenizer.chat_template is None:
        raise InputError(
            f"{weights} has no chat template; required: a model that was trained to chat"
        )
    tokenizer.clean_up_tokenization_spaces = False
    tokenizer.model_max_length = model.config.max_position_embeddings
    ends, pads = tokenizer.eos_token_id, tokenizer.pad_token_id
    model.config.eos_token_id, model.config.pad_token_id = ends, pads
    model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        bos_token_id=tokenizer.bos_token_id, eos_token_id=ends, pad_token_id=pads
    )
    return model, tokenizer


def _special_tokens(weights: Path) -> tuple[str, str]:
    """Return the tokens that end a turn and fill a batch, from the file itself."""
    from gguf import GGUFReader

    try:
        fields = GGUFReader(weights).fields
        tokens = fields["tokenizer.ggml.tokens"]
        end = fields["tokenizer.ggml.eos_token_id"].contents()
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"{weights} cannot be read ({format_error(error)}); required: a GGUF file of a "
            "language model with its tokenizer"
        ) from error
    padding = fields.get("tokenizer.ggml.padding_token_id")
    return str(tokens.contents(end)), str(tokens.contents(padding.contents() if padding else end))


def _answer_of(model: Any, tokenizer: Any) -> str:
    messages = [{"role": "user", "content": QUESTION}]
    prompt = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    generated = model.generate(**prompt, max_new_tokens=12, do_sample=False)
    return str(
        tokenizer.decode(generated[0, prompt["input_ids"].shape[1] :], skip_special_tokens=True)
    )
