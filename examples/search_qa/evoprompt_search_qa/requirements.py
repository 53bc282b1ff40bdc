"""The sizes of models, and the questions that are here.

Nothing is loaded, downloaded or written; a missing thing comes with the command that brings it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from evoprompt.requirements import model_folder
from evoprompt.tasks import Need

TRAINED_BYTES = 16
"""Bytes a weight of a trained model takes: itself, its gradient and Adam's two moments, 4 each."""

_QWEN_VOCABULARY = 151_936


@dataclass(frozen=True, slots=True)
class ModelSize:
    """How large a language model is.

    Attributes:
        parameters: number of weights.
        vocabulary: number of tokens it knows.
        exact: whether this is from the model's own files rather than from its name.
    """

    parameters: int
    vocabulary: int
    exact: bool


def model_size(name: str) -> ModelSize | None:
    """The size of a language model, from its files or else its name; None if neither tells."""
    folder = model_folder(name)
    if folder is not None:
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM

        config = AutoConfig.from_pretrained(folder)
        with torch.device("meta"):
            empty = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
        return ModelSize(empty.num_parameters(), config.vocab_size, True)
    told = re.search(r"(\d+(?:\.\d+)?)[bB](?![a-zA-Z])", name)
    return ModelSize(int(float(told[1]) * 1e9), _QWEN_VOCABULARY, False) if told else None


def ties_embeddings(name: str) -> bool:
    """Whether a model's input and output embeddings are one; True where its files do not tell."""
    folder = model_folder(name)
    if folder is None:
        return True
    from transformers import AutoConfig

    return bool(AutoConfig.from_pretrained(folder).tie_word_embeddings)


def questions(split: str, path: Path) -> Need:
    """A parquet file of questions."""
    import pyarrow
    import pyarrow.parquet

    remedy = f"evoprompt search-qa data prepare --output {path.parent} --validation 500"
    if not path.is_file():
        return Need(f"{split} questions", f"{path} does not exist", remedy)
    try:
        rows = pyarrow.parquet.ParquetFile(path).metadata.num_rows
    except (pyarrow.ArrowException, OSError) as error:
        return Need(f"{split} questions", f"{path} is no parquet file ({error})", remedy)
    return Need(f"{split} questions", f"{rows:,} in {path}")
