"""Rolls the tiny policy out with the search tool: many multi-turn episodes at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from evoprompt_tiny.sampler import CacheSampler
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from evoprompt.agents import Agent, Broken, Call, Episode, Result, play
from evoprompt.errors import InputError
from evoprompt.text import told
from evoprompt_search_qa import protocol

Search = Callable[[str], Sequence[str]]


class SearchAgent:
    """Plays episodes of the search protocol with a policy.

    Args:
        policy: the weights to use, at the time of each call.
        tokenizer: has one token for each protocol tag.
        search: the tool; an exception of it ends the episode as ``"failed"``.
        max_searches: searches an episode may make; a further one ends it without an answer.
    """

    def __init__(
        self,
        policy: LlamaForCausalLM,
        tokenizer: PreTrainedTokenizerFast,
        search: Search,
        max_searches: int = protocol.TINY_LIMITS.calls,
    ) -> None:
        self._policy = policy
        self._tokenizer = tokenizer
        self._search = search
        self._agent = Agent(
            protocol.TINY, tokenizer, replace(protocol.TINY_LIMITS, calls=max_searches)
        )

    def run(
        self,
        prompts: Sequence[str],
        rollouts: int | Sequence[int] = 1,
        *,
        greedy: bool = False,
        temperature: float = 1.0,
    ) -> list[Episode]:
        """``rollouts`` episodes per prompt (or one number per prompt), those of a prompt together.

        Raises:
            InputError: a prompt leaves no room for the longest episode.
        """
        encoded = [self._encode(prompt) for prompt in prompts]
        counts = [rollouts] * len(prompts) if isinstance(rollouts, int) else rollouts
        plays = [
            self._agent.play(ids)
            for ids, count in zip(encoded, counts, strict=True)
            for _ in range(count)
        ]
        sampler = CacheSampler(
            self._policy, self._tokenizer, protocol.TINY_LIMITS.response_tokens, temperature
        )
        return play(plays, sampler, self._called, greedy=greedy)

    def _encode(self, prompt: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(prompt, add_special_tokens=False)
        longest = protocol.TINY_LIMITS.response_tokens
        room = self._policy.config.max_position_embeddings - longest
        if len(ids) > room:
            raise InputError(
                f"a prompt has {len(ids)} tokens, but must have at most {room} to leave "
                f"{longest} for the episode; shorten the instruction"
            )
        return ids

    def _called(self, calls: Sequence[Call]) -> list[Result]:
        return [self._result(str(call.arguments["query"])) for call in calls]

    def _result(self, query: str) -> Result:
        try:
            return protocol.joined(self._search(query))
        except Exception as error:  # whatever a tool raises, it is the tool that broke
            return Broken(told(error))
