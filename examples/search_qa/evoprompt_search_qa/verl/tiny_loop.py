"""The agent loop of the tiny worlds: the tool is a BM25 index in the agent loop worker itself."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from evoprompt.agents import Agent, Call
from evoprompt_search_qa import protocol
from evoprompt_search_qa.tiny.retriever import Retriever
from evoprompt_search_qa.tiny.world import World
from evoprompt_search_qa.verl.agent_loop import SearchAgentLoop


class TinyLoop(SearchAgentLoop):
    """Plays an episode in the world of seed ``world`` and size ``scale``."""

    def __init__(self, *given: Any, world: int, scale: int, **named: Any) -> None:
        super().__init__(*given, **named)
        self.agent = Agent(protocol.TINY, self.tokenizer, protocol.TINY_LIMITS)
        self._retriever = _retriever(world, scale)

    def sampling(self, session: int) -> Mapping[str, object]:
        """Stops at the token that closes a query; the end of the text always stops.

        The same rollout of a group draws the same numbers, whoever comes first: runs repeat.
        """
        sampling = self.agent.sampling
        return {
            "max_tokens": sampling.max_tokens,
            "stop_token_ids": self.tokenizer.convert_tokens_to_ids(list(sampling.stop)),
            "seed": session,
        }

    async def call(self, call: Call) -> str:
        """The facts that share words with a query."""
        return protocol.joined(self._retriever.search(str(call.arguments["query"])))


@cache
def _retriever(world: int, scale: int) -> Retriever:
    return Retriever(World.random(world, scale).passages)
