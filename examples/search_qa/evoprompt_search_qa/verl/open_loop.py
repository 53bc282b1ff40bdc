"""The agent loop of open questions: any causal language model, passages from a search server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evoprompt_retrieval.client import RetrievalClient

from evoprompt.agents import Agent, Call, Limits
from evoprompt_search_qa import protocol
from evoprompt_search_qa.verl.agent_loop import SearchAgentLoop

_clients: dict[tuple[str, int], RetrievalClient] = {}


class OpenLoop(SearchAgentLoop):
    """Plays an episode with the search server at ``retriever``.

    Args:
        retriever: address of the server.
        topk: passages a search.
        searches: most searches an episode.
        turn_tokens: most tokens an action.
        observation_tokens: most tokens of an observation, tags included.
    """

    def __init__(
        self,
        *given: Any,
        retriever: str,
        topk: int,
        searches: int,
        turn_tokens: int,
        observation_tokens: int,
        **named: Any,
    ) -> None:
        super().__init__(*given, **named)
        limits = Limits(searches, turn_tokens, observation_tokens)
        self.agent = Agent(protocol.SEARCHING, self.tokenizer, limits)
        self._retriever, self._topk = retriever, topk

    def sampling(self, session: int) -> Mapping[str, object]:
        """Stops where a query or an answer is closed, as vLLM sees it in the text."""
        return protocol.vllm_arguments(self.agent.sampling)

    async def call(self, call: Call) -> str:
        """The passages for a query.

        Raises:
            RetrievalError: the server stayed silent or answered nonsense.
        """
        client = await _client(self._retriever, self._topk)
        return protocol.numbered(await client.search(str(call.arguments["query"])))


async def _client(url: str, topk: int) -> RetrievalClient:
    """One client a worker: its episodes' queries travel together, and answers are kept."""
    if (url, topk) not in _clients:
        client = RetrievalClient(url, topk=topk, attempts=8)
        _clients[url, topk] = client
        await client.__aenter__()
    return _clients[url, topk]
