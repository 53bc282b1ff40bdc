"""Rolls a policy out with the search tool: many multi-turn episodes at a time.

One prefill serves all rollouts of a prompt, an observation enters as one chunk, and an episode that
ended is dropped between turns. Randomness comes from torch's generator alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from evoprompt.errors import InputError
from evoprompt.types import Turn
from evoprompt_search_qa import protocol
from evoprompt_search_qa.episode import Episode
from evoprompt_search_qa.tiny.cache import EpisodeCache

Search = Callable[[str], Sequence[str]]
OBSERVATION_TOKENS = 40
"""Most tokens of an observation that are shown."""

RESPONSE_TOKENS = (
    protocol.MAX_SEARCHES + 1
) * protocol.ACTION_TOKENS + protocol.MAX_SEARCHES * OBSERVATION_TOKENS
"""Most tokens an episode adds to its prompt."""


class SearchAgent:
    """Plays episodes of the search protocol with a policy.

    Args:
        policy: the weights to use, at the time of each call.
        tokenizer: has one token for each protocol tag.
        search: the tool; an exception of it ends the episode as ``"failed"``.
        max_searches: searches an episode may make, at most ``protocol.MAX_SEARCHES``; a further
            one ends it without an answer.
    """

    def __init__(
        self,
        policy: LlamaForCausalLM,
        tokenizer: PreTrainedTokenizerFast,
        search: Search,
        max_searches: int = protocol.MAX_SEARCHES,
    ) -> None:
        self._policy = policy
        self._tokenizer = tokenizer
        self._search = search
        self._max_searches = max_searches
        self._pad: int = tokenizer.pad_token_id
        self._stops = [
            tokenizer.convert_tokens_to_ids(protocol.END_SEARCH),
            tokenizer.eos_token_id,
        ]

    @torch.inference_mode()
    def run(
        self,
        prompts: Sequence[str],
        rollouts: int | Sequence[int] = 1,
        *,
        greedy: bool = False,
        temperature: float = 1.0,
    ) -> list[Episode]:
        """``rollouts`` episodes a prompt (or one number a prompt), those of a prompt together.

        Raises:
            InputError: a prompt leaves no room for the longest episode.
        """
        prompt_ids = self._encode(prompts)
        logits, cache = self._prefill(prompt_ids)
        counts = [rollouts] * len(prompts) if isinstance(rollouts, int) else rollouts
        copies = self._tensor([row for row, count in enumerate(counts) for _ in range(count)])
        cache.keep(copies)
        logits = logits[copies]
        episodes = [Episode(list(prompt_ids[row])) for row in copies.tolist()]
        live = episodes
        while True:
            actions = self._act(logits, cache, greedy=greedy, temperature=temperature)
            rows = self._observe(live, actions)
            if not rows:
                return episodes
            cache.keep(self._tensor(rows))
            live = [live[row] for row in rows]
            unread = [
                [actions[row][0][-1], *self._observation_ids(episode)]
                for row, episode in zip(rows, live, strict=True)
            ]
            logits = self._read(unread, cache)

    def _encode(self, prompts: Sequence[str]) -> list[list[int]]:
        encoded: list[list[int]] = self._tokenizer(list(prompts), add_special_tokens=False)[
            "input_ids"
        ]
        longest = max(len(ids) for ids in encoded)
        room = self._policy.config.max_position_embeddings - RESPONSE_TOKENS
        if longest > room:
            raise InputError(
                f"a prompt has {longest} tokens, but must have at most {room} to leave "
                f"{RESPONSE_TOKENS} for the episode; shorten the instruction"
            )
        return encoded

    def _prefill(self, prompt_ids: Sequence[Sequence[int]]) -> tuple[torch.Tensor, EpisodeCache]:
        config = self._policy.config
        cache = EpisodeCache(
            len(prompt_ids),
            max(len(ids) for ids in prompt_ids) + RESPONSE_TOKENS,
            layers=config.num_hidden_layers,
            heads=config.num_key_value_heads or config.num_attention_heads,
            width=config.hidden_size // config.num_attention_heads,
            device=self._policy.device,
        )
        return self._read(prompt_ids, cache), cache

    def _read(self, chunks: Sequence[Sequence[int]], cache: EpisodeCache) -> torch.Tensor:
        """Logits ``(R, V)`` after each row has read its chunk."""
        counts = self._tensor([len(chunk) for chunk in chunks])
        width = max(map(len, chunks))
        ids = self._tensor([[*chunk, *[self._pad] * (width - len(chunk))] for chunk in chunks])
        valid = torch.arange(width, device=ids.device)[None, :] < counts[:, None]
        return self._forward(ids, valid, cache, counts - 1)

    def _forward(
        self, ids: torch.Tensor, valid: torch.Tensor, cache: EpisodeCache, last: torch.Tensor
    ) -> torch.Tensor:
        positions, mask = cache.append(valid)
        hidden = self._policy.model(
            input_ids=ids,
            position_ids=positions,
            attention_mask=mask,
            past_key_values=cache,
            use_cache=True,
        ).last_hidden_state
        logits: torch.Tensor = self._policy.lm_head(
            hidden[torch.arange(len(ids), device=ids.device), last]
        )
        return logits

    def _act(
        self, logits: torch.Tensor, cache: EpisodeCache, *, greedy: bool, temperature: float
    ) -> list[tuple[list[int], list[float]]]:
        """The next action of every row: its tokens and their log-probabilities."""
        device = logits.device
        stops = torch.tensor(self._stops, device=device)
        alive = torch.ones(len(logits), dtype=torch.bool, device=device)
        chosen: list[torch.Tensor] = []
        logprobs: list[torch.Tensor] = []
        counts = torch.zeros(len(logits), dtype=torch.long, device=device)
        first = torch.zeros(len(logits), dtype=torch.long, device=device)
        for step in range(protocol.ACTION_TOKENS):
            if step:
                logits = self._forward(chosen[-1][:, None], alive[:, None], cache, first)
            scores = torch.log_softmax(logits / temperature, -1)
            token = scores.argmax(-1) if greedy else _sample(scores)
            chosen.append(token)
            logprobs.append(scores.gather(1, token[:, None])[:, 0])
            counts += alive
            alive = alive & ~torch.isin(token, stops)
            if not alive.any():
                break
        ids, values = torch.stack(chosen, 1).tolist(), torch.stack(logprobs, 1).tolist()
        return [
            (row_ids[:count], row_values[:count])
            for row_ids, row_values, count in zip(ids, values, counts.tolist(), strict=True)
        ]

    def _tensor(self, numbers: Sequence[int] | Sequence[Sequence[int]]) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.long, device=self._policy.device)

    def _observe(
        self, live: Sequence[Episode], actions: Sequence[tuple[list[int], list[float]]]
    ) -> list[int]:
        """Writes actions and observations into the episodes; returns the rows that go on."""
        texts = self._tokenizer.batch_decode([ids for ids, _ in actions], skip_special_tokens=True)
        going_on = []
        for row, (episode, text, (ids, logprobs)) in enumerate(
            zip(live, texts, actions, strict=True)
        ):
            episode.completion_ids += ids
            episode.policy_mask += [1] * len(ids)
            episode.logprobs += logprobs
            query = protocol.find_query(text)
            shown = ""
            if query is None:
                answered = protocol.find_answer([Turn(text)]) is not None
                episode.end = "answered" if answered else "malformed"
            elif episode.searches == self._max_searches:
                episode.end = "out of turns"
            else:
                try:
                    shown = protocol.observation(self._search(query))
                except Exception:
                    episode.end = "failed"
                else:
                    going_on.append(row)
            episode.turns.append(Turn(text, shown))
        return going_on

    def _observation_ids(self, episode: Episode) -> list[int]:
        ids: list[int] = self._tokenizer.encode(
            episode.turns[-1].observation, add_special_tokens=False
        )[:OBSERVATION_TOKENS]
        episode.completion_ids += ids
        episode.policy_mask += [0] * len(ids)
        episode.logprobs += [0.0] * len(ids)
        return ids


def _sample(logprobs: torch.Tensor) -> torch.Tensor:
    """One token a row by inverse transform sampling."""
    # torch.multinomial takes twenty times longer.
    sums = logprobs.double().exp().cumsum(-1)
    drawn = torch.rand(len(sums), 1, dtype=torch.float64, device=sums.device) * sums[:, -1:]
    return torch.searchsorted(sums, drawn, right=True)[:, 0].clamp(max=sums.shape[1] - 1)
