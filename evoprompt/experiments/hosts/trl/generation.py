"""Actions of a ``transformers`` model, with their stop texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from transformers import (
    AutoTokenizer,
    GenerationConfig,
    PreTrainedTokenizerBase,
    StoppingCriteria,
)

from evoprompt.agents import Action, Sampling
from evoprompt.support.errors import InputError

if TYPE_CHECKING:  # slow to import, and a dry run has no trainer
    from trl.trainer.grpo_trainer import GRPOTrainer

_TAIL_TOKENS = 16  # enough for a text that ends an action, were it one token per byte
_DRAWING = ("temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff")
ENDING = (
    "max_new_tokens", "max_length", "max_tokens", "min_tokens", "min_new_tokens", "min_length",
    "stop", "stop_strings", "stop_token_ids", "eos_token_id", "ignore_eos",
    "include_stop_str_in_output", "n", "num_return_sequences", "num_beams", "do_sample",
)  # fmt: skip
"""Settings of a generation that define the end or the number of actions, which a configuration may
not set."""


def choices(trainer: GRPOTrainer) -> dict[str, object]:
    """Return the sampling settings of ``trainer`` in training, by names of ``GenerationConfig``.

    Every setting is there: transformers would take the model's own value of a missing one.
    """
    return {
        "temperature": trainer.temperature,
        "top_p": trainer.top_p,
        "top_k": trainer.top_k or 0,
        "min_p": trainer.min_p or 0.0,
        "repetition_penalty": trainer.repetition_penalty,
        **(getattr(trainer.args, "generation_kwargs", None) or {}),
        "do_sample": True,
    }


def greedy(chosen: Mapping[str, object]) -> dict[str, object]:
    """Return settings for the most likely token; settings without randomness stay, as in vLLM."""
    deterministic_settings = {name: value for name, value in chosen.items() if name not in _DRAWING}
    return {**deterministic_settings, "do_sample": False}


def vllm_arguments(sampling: Sampling) -> dict[str, object]:
    """Return the sampling parameters of vLLM with which an action ends in time."""
    return {
        "max_tokens": sampling.max_tokens,
        "stop": list(sampling.stop),
        "include_stop_str_in_output": True,
    }


def tokenizer_of(model: str) -> PreTrainedTokenizerBase:
    """Return the tokenizer of ``model``, with a token for padding.

    Raises:
        InputError: there is none.
    """
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(model, padding_side="left")
    except (OSError, ValueError) as error:
        raise missing(model, error) from error
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    # With these TRL would read an episode of several turns as one message.
    for name in ("response_template", "response_schema"):
        if getattr(tokenizer, name, None) is not None:
            setattr(tokenizer, name, None)
    return cast(PreTrainedTokenizerBase, tokenizer)


def missing(model: str, error: Exception) -> InputError:
    """Return the error of a model that cannot be loaded, with its remedy."""
    reason = " ".join(str(error).split())[:300]
    return InputError(
        f"host.model is {model!r}, which cannot be loaded ({reason}); required: a model on the "
        f"Hugging Face hub or its folder; fetch it with: hf download {model}"
    )


@torch.no_grad()
def generate(
    model: torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    contexts: Sequence[Sequence[int]],
    sampling: Sampling,
    choice: Mapping[str, object],
) -> list[Action]:
    """Return one action after each context, all in one batch.

    Args:
        model: a causal language model, on any device.
        tokenizer: of the model; has a token for padding.
        contexts: token ids.
        sampling: the end of an action.
        choice: sampling settings; see :func:`choices`.
    """
    # Padding is never attended to, and some models have no token for it.
    ends = end_tokens(model, tokenizer)
    pad = tokenizer.pad_token_id if tokenizer.eos_token_id is None else tokenizer.eos_token_id
    config = GenerationConfig(  # type: ignore[no-untyped-call]
        max_new_tokens=sampling.max_tokens,
        pad_token_id=pad,
        eos_token_id=ends or None,
        disable_compile=True,
        **choice,
    )
    width = max(map(len, contexts))
    device = next(model.parameters()).device
    ids = torch.tensor([[*[pad] * (width - len(row)), *row] for row in contexts])
    read = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in contexts])
    row_ends = _RowEnds(tokenizer, sampling.stop, ends, width, len(contexts))
    generated = model.generate(  # type: ignore[operator]
        input_ids=ids.to(device),
        attention_mask=read.to(device),
        generation_config=config,
        stopping_criteria=[row_ends],
    )[:, width:].tolist()
    return [Action(row[:end]) for row, end in zip(generated, row_ends.lengths, strict=True)]


def end_tokens(model: torch.nn.Module, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Return the tokens that end an action: those of the model, and that of the tokenizer.

    Args:
        model: its generation settings may name end tokens.
        tokenizer: of the model.
    """
    named = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    several = named if isinstance(named, Sequence) else [named]
    return sorted({int(token) for token in (*several, tokenizer.eos_token_id) if token is not None})


class _RowEnds(StoppingCriteria):
    """Criterion that ends a row at a stop text or its end of text, and records its length.

    Padding may be the end-of-text token too, so the tokens alone do not tell the end of a row.

    Attributes:
        lengths: number of tokens of each row.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        stop: Sequence[str],
        ends: Sequence[int],
        start: int,
        rows: int,
    ) -> None:
        self._tokenizer = tokenizer
        self._stop = stop
        self._ends = ends
        self._start = start
        self._done = [False] * rows
        self.lengths = [0] * rows

    def __call__(
        self, input_ids: torch.Tensor, scores: torch.Tensor, **_kwargs: object
    ) -> torch.Tensor:
        """Return the rows that are finished."""
        open_rows = [row for row, done in enumerate(self._done) if not done]
        first = max(self._start, input_ids.shape[1] - _TAIL_TOKENS)
        tails = input_ids[open_rows, first:].tolist()
        texts = self._tokenizer.batch_decode(tails)
        for row, tail, text in zip(open_rows, tails, texts, strict=True):
            self.lengths[row] += 1
            self._done[row] = tail[-1] in self._ends or any(tag in text for tag in self._stop)
        return torch.tensor(self._done, device=input_ids.device)
