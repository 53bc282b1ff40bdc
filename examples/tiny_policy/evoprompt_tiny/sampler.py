"""Sampler of the tiny policy with a cache of keys and values of all open episodes.

One prefill serves all rollouts of a prompt, an observation enters as one chunk, and an episode that
ended is dropped between turns. All randomness comes from torch's generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from evoprompt.agents import Action, Broken, Episode, Limits, Sampling
from evoprompt_tiny.cache import EpisodeCache


class CacheSampler:
    """Sampler of actions; made for one play, as it does not notice new weights.

    Args:
        policy: the weights to use.
        tokenizer: has one token for each text that ends an action.
        response_tokens: most tokens that are added to a context, for which room is reserved.
        temperature: of sampling.
    """

    def __init__(
        self,
        policy: LlamaForCausalLM,
        tokenizer: PreTrainedTokenizerFast,
        response_tokens: int,
        temperature: float = 1.0,
    ) -> None:
        self._policy = policy
        self._tokenizer = tokenizer
        self._response_tokens = response_tokens
        self._temperature = temperature
        self._pad: int = tokenizer.pad_token_id
        self._cache: EpisodeCache
        self._cached: list[Episode] = []

    @torch.inference_mode()
    def __call__(
        self, episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool
    ) -> list[Action | Broken]:
        """Return one action per episode; ``Broken`` if the context leaves no room for one."""
        room = self._policy.config.max_position_embeddings - sampling.max_tokens
        fitting = [episode for episode in episodes if len(episode.context) <= room]
        actions = iter(
            self._act(self._read_on(fitting), sampling, greedy=greedy) if fitting else ()
        )
        return [
            next(actions)
            if len(episode.context) <= room
            else Broken(
                f"a context has {len(episode.context)} tokens, but must have at most {room} to "
                f"leave {sampling.max_tokens} for an action; give shorter texts"
            )
            for episode in episodes
        ]

    def _read_on(self, episodes: Sequence[Episode]) -> torch.Tensor:
        """Return logits ``(R, V)`` after each context."""
        rows = {id(episode): row for row, episode in enumerate(self._cached)}
        self._cached = list(episodes)
        if not all(id(episode) in rows for episode in episodes):
            return self._prefill([episode.context for episode in episodes])
        self._cache.keep(self._tensor([rows[id(episode)] for episode in episodes]))
        lengths = self._cache.lengths.tolist()
        unread = [
            episode.context[length:] for episode, length in zip(episodes, lengths, strict=True)
        ]
        return self._read(unread)

    def _prefill(self, contexts: Sequence[list[int]]) -> torch.Tensor:
        groups = [(context, len(list(repeats))) for context, repeats in groupby(contexts)]
        config = self._policy.config
        self._cache = EpisodeCache(
            len(groups),
            max(map(len, contexts)) + self._response_tokens,
            layers=config.num_hidden_layers,
            heads=config.num_key_value_heads or config.num_attention_heads,
            width=config.hidden_size // config.num_attention_heads,
            device=self._policy.device,
        )
        logits = self._read([context for context, _ in groups])
        copies = self._tensor([row for row, (_, count) in enumerate(groups) for _ in range(count)])
        self._cache.keep(copies)
        return logits[copies]

    def _read(self, chunks: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return logits ``(R, V)`` after each row has read its chunk."""
        counts = self._tensor([len(chunk) for chunk in chunks])
        width = max(map(len, chunks))
        ids = self._tensor([[*chunk, *[self._pad] * (width - len(chunk))] for chunk in chunks])
        valid = torch.arange(width, device=ids.device)[None, :] < counts[:, None]
        return self._forward(ids, valid, counts - 1)

    def _forward(self, ids: torch.Tensor, valid: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        positions, mask = self._cache.append(valid)
        hidden = self._policy.model(
            input_ids=ids,
            position_ids=positions,
            attention_mask=mask,
            past_key_values=self._cache,
            use_cache=True,
        ).last_hidden_state
        logits: torch.Tensor = self._policy.lm_head(
            hidden[torch.arange(len(ids), device=ids.device), last]
        )
        return logits

    def _act(self, logits: torch.Tensor, sampling: Sampling, *, greedy: bool) -> list[Action]:
        """Return the next action of every row."""
        device = logits.device
        ends = [self._tokenizer.convert_tokens_to_ids(text) for text in sampling.stop]
        stops = torch.tensor([*ends, self._tokenizer.eos_token_id], device=device)
        open_rows = torch.ones(len(logits), dtype=torch.bool, device=device)
        chosen: list[torch.Tensor] = []
        logprobs: list[torch.Tensor] = []
        counts = torch.zeros(len(logits), dtype=torch.long, device=device)
        first = torch.zeros(len(logits), dtype=torch.long, device=device)
        for step in range(sampling.max_tokens):
            if step:
                logits = self._forward(chosen[-1][:, None], open_rows[:, None], first)
            scores = torch.log_softmax(logits / self._temperature, -1)
            token = scores.argmax(-1) if greedy else _sample(scores)
            chosen.append(token)
            logprobs.append(scores.gather(1, token[:, None])[:, 0])
            counts += open_rows
            open_rows = open_rows & ~torch.isin(token, stops)
            if not open_rows.any():
                break
        ids, values = torch.stack(chosen, 1).tolist(), torch.stack(logprobs, 1).tolist()
        return [
            Action(row_ids[:count], row_values[:count])
            for row_ids, row_values, count in zip(ids, values, counts.tolist(), strict=True)
        ]

    def _tensor(self, numbers: Sequence[int] | Sequence[Sequence[int]]) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.long, device=self._policy.device)


def sampler_of(
    model: object, tokenizer: PreTrainedTokenizerFast, limits: Limits, temperature: float
) -> CacheSampler | None:
    """Return a sampler of a tiny policy; None for other models, which ``transformers`` samples.

    Args:
        model: the model of a trainer.
        tokenizer: of the model.
        limits: of an episode.
        temperature: of sampling.
    """
    if type(model) is LlamaForCausalLM and model.dtype == torch.float32:
        return CacheSampler(model, tokenizer, limits.response_tokens, temperature)
    return None


def _sample(logprobs: torch.Tensor) -> torch.Tensor:
    """Return one token a row by inverse transform sampling."""
    # torch.multinomial takes twenty times longer.
    sums = logprobs.double().exp().cumsum(-1)
    points = torch.rand(len(sums), 1, dtype=torch.float64, device=sums.device) * sums[:, -1:]
    return torch.searchsorted(sums, points, right=True)[:, 0].clamp(max=sums.shape[1] - 1)
