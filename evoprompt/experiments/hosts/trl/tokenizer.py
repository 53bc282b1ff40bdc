"""The tokenizer of a model to be trained."""

from __future__ import annotations

from transformers import PreTrainedTokenizerBase

from evoprompt.errors import InputError
from evoprompt.experiments.hosts.trl.generation import load_tokenizer


def tokenizer_of(model: str) -> PreTrainedTokenizerBase:
    """The tokenizer of ``model``.

    Raises:
        InputError: there is none.
    """
    try:
        tokenizer = load_tokenizer(model)
    except (OSError, ValueError) as error:
        raise missing(model, error) from error
    # By these TRL would take an episode of several turns for one message.
    for name in ("response_template", "response_schema"):
        if getattr(tokenizer, name, None) is not None:
            setattr(tokenizer, name, None)
    return tokenizer


def missing(model: str, error: Exception) -> InputError:
    """That a model cannot be loaded, and what to do."""
    told = " ".join(str(error).split())[:300]
    return InputError(
        f"host.model is {model!r}, which cannot be loaded ({told}); required: a model on the "
        f"Hugging Face hub or its folder; fetch it with: hf download {model}"
    )
