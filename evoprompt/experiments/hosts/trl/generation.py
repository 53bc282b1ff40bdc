"""Actions of a ``transformers`` model, with their stop texts."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    AutoTokenizer,
    DynamicCache,
    GenerationConfig,
    GenerationMixin,
    PreTrainedTokenizerBase,
    StoppingCriteria,
)
from transformers.cache_utils import DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from evoprompt.agents import Action, Sampling
from evoprompt.support.errors import InputError

if TYPE_CHECKING:  # slow to import, and a dry run has no trainer
    from trl.trainer.grpo_trainer import GRPOTrainer

_INPUT_NAMES = inspect.signature(GenerationMixin.prepare_inputs_for_generation).parameters
_CACHE = "cache" if "cache" in _INPUT_NAMES else "past_key_values"  # renamed in transformers 5.24
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


class Generator:
    """Generator of actions that keeps keys and values for the next turn of the same contexts.

    Made for one play, as it does not notice new weights. It reads a batch from the beginning that
    its contexts share, unless each continues a context of the batch before. It keeps no keys of
    a model that has other layers than full attention.

    Args:
        tokenizer: of the model; has a token for padding.
        keeps_keys: whether it keeps keys; not with several processes, which read equally often.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, keeps_keys: bool) -> None:
        self._tokenizer, self._keeps_keys = tokenizer, keeps_keys
        self._contexts: list[list[int]] = []
        self._ids = self._mask = torch.empty(0)
        self._cache: DynamicCache | None = None

    @torch.no_grad()
    def __call__(
        self,
        model: torch.nn.Module,
        contexts: Sequence[list[int]],
        sampling: Sampling,
        choice: Mapping[str, object],
    ) -> list[Action]:
        """Return one action after each context, all in one batch.

        Args:
            model: a causal language model, on any device.
            contexts: token ids.
            sampling: the end of an action.
            choice: sampling settings; see :func:`choices`.
        """
        # Padding is never attended to, and some models have no token for it.
        tokenizer = self._tokenizer
        ends = end_tokens(model, tokenizer)
        pad = tokenizer.pad_token_id if tokenizer.eos_token_id is None else tokenizer.eos_token_id
        config = GenerationConfig(  # type: ignore[no-untyped-call]
            max_new_tokens=sampling.max_tokens,
            pad_token_id=pad,
            eos_token_id=ends or None,
            disable_compile=True,
            **choice,
        )
        ids, mask = self._begin(model, contexts, "cache_implementation" in choice)
        counts = mask.sum(1).tolist()
        unread = [row[count:] for row, count in zip(contexts, counts, strict=True)]
        width = max(map(len, unread))
        new_ids = ids.new_tensor([[*[pad] * (width - len(row)), *row] for row in unread])
        new_mask = ids.new_tensor([[0] * (width - len(row)) + [1] * len(row) for row in unread])
        ids, mask = torch.cat([ids, new_ids], 1), torch.cat([mask, new_mask], 1)
        start = ids.shape[1]
        row_ends = _RowEnds(tokenizer, sampling.stop, ends, start, len(contexts))
        with _shared_keys(model):
            self._ids = model.generate(  # type: ignore[operator]
                input_ids=ids,
                attention_mask=mask,
                generation_config=config,
                stopping_criteria=[row_ends],
                **{_CACHE: self._cache},
            )
        generated = self._ids[:, start:].tolist()
        actions = [row[:end] for row, end in zip(generated, row_ends.lengths, strict=True)]
        self._contexts = [old + new for old, new in zip(contexts, actions, strict=True)]
        places = torch.arange(self._ids.shape[1] - start, device=ids.device)
        is_in_action = places < ids.new_tensor(row_ends.lengths)[:, None]
        self._mask = torch.cat([mask, is_in_action.long()], 1)
        return [Action(action) for action in actions]

    def _begin(
        self, model: torch.nn.Module, contexts: Sequence[list[int]], has_own_cache: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the tokens with known keys, and their mask; select the rows of the keys."""
        device = next(model.parameters()).device
        rows = [self._row(context) for context in contexts]
        if self._cache is not None and None not in rows:
            self._cache.batch_select_indices(torch.tensor(rows, device=device))
            length = self._cache.get_seq_length()  # the last token of a batch has no key yet
            return self._ids[rows, :length], self._mask[rows, :length]
        cache, shared = DynamicCache(config=cast(Any, model.config)), 0
        self._cache = None
        is_full_attention = all(type(layer) is DynamicLayer for layer in cache.layers)
        if self._keeps_keys and is_full_attention and not has_own_cache:
            ends = min(contexts)[:-1], max(contexts)
            shared = sum(accumulate(map(operator.eq, *ends), operator.and_))
        prefix = torch.tensor([contexts[0][:shared]], dtype=torch.long, device=device)
        if shared:
            # Logits of all of it, 1,000 tokens and 152,000 words, would take 600 MB in float32.
            can_keep_last = model._supports_logits_to_keep()  # type: ignore[operator]
            settings = {_CACHE: cache, **({"logits_to_keep": 1} if can_keep_last else {})}
            model(input_ids=prefix, use_cache=True, **settings)
            cache.batch_repeat_interleave(len(contexts))
            self._cache = cache
        ids = prefix.repeat(len(contexts), 1)
        return ids, torch.ones_like(ids)

    def _row(self, context: list[int]) -> int | None:
        """Return the row of the batch before that ``context`` continues."""
        rows = enumerate(self._contexts)
        return next((row for row, begin in rows if begin == context[: len(begin)] != context), None)


_SHARED_KEYS = "evoprompt-shared-keys"


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **settings: Any,
) -> tuple[torch.Tensor, None]:
    """Return the attention of ``sdpa``; heads of one token that share keys are read as tokens."""
    rows, heads, tokens, size = query.shape
    if tokens > 1:
        attention: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, **settings
        )
        return attention
    query, scale = query.reshape(rows, key.shape[1], -1, size), settings.get("scaling")
    result = scaled_dot_product_attention(query, key, value, attention_mask, scale=scale)
    return result.reshape(rows, 1, heads, size), None


AttentionInterface.register(_SHARED_KEYS, _attend)
AttentionMaskInterface.register(_SHARED_KEYS, sdpa_mask)


@contextmanager
def _shared_keys(model: Any) -> Iterator[None]:
    """Let ``model`` read keys once for all heads that share them, on a CPU.

    ``sdpa`` copies them for each head, and multiplies by one row. For 60 rows of 380 tokens and 14
    heads, of which 7 each share keys, a layer took 190 ms of a core in bfloat16, and takes 9. The
    other parts of a composite model, such as one that reads images, keep their own.
    """
    decoder = model.get_decoder()
    is_sdpa = decoder.config._attn_implementation == "sdpa"
    if not is_sdpa or model.device.type != "cpu" or not decoder._can_set_attn_implementation():
        yield
        return
    decoder.set_attn_implementation(_SHARED_KEYS)
    try:
        yield
    finally:
        decoder.set_attn_implementation("sdpa")


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
