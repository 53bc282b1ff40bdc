"""The agent loop of the tiny worlds: the tool is a BM25 index in the agent loop worker itself."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from evoprompt_search_qa import protocol
from evoprompt_search_qa.tiny.agent import OBSERVATION_TOKENS
from evoprompt_search_qa.tiny.retriever import Retriever
from evoprompt_search_qa.tiny.world import World
from evoprompt_search_qa.verl.agent_loop import SearchAgentLoop


class TinyLoop(SearchAgentLoop):
    """Plays an episode in the world of seed ``world`` and size ``scale``."""

    max_searches = protocol.MAX_SEARCHES

    def __init__(self, *given: Any, world: int, scale: int, **named: Any) -> None:
        super().__init__(*given, **named)
        self._retriever = _retriever(world, scale)

    def sampling(self, session: int) -> Mapping[str, object]:
        """Stops at the token that closes a query; the end of the text always stops.

        The same rollout of a group draws the same numbers, whoever comes first: runs repeat.
        """
        return {
            "max_tokens": protocol.ACTION_TOKENS,
            "stop_token_ids": [self.tokenizer.convert_tokens_to_ids(protocol.END_SEARCH)],
            "seed": session,
        }

    def read(self, action: str) -> str:
        """All of it: every tag is one token, so none can run into the next."""
        return action

    async def observe(self, query: str) -> tuple[str, list[int]]:
        """The facts that share words with ``query``."""
        shown = protocol.observation(self._retriever.search(query))
        ids: list[int] = self.tokenizer.encode(shown, add_special_tokens=False)
        return shown, ids[:OBSERVATION_TOKENS]


@cache
def _retriever(world: int, scale: int) -> Retriever:
    return Retriever(World.random(world, scale).passages)
