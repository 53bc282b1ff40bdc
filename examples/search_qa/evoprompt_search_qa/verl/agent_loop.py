"""An episode of the search protocol as an agent loop of veRL, multi-turn in plain text.

Actions are sampled by the rollout replicas; observations are appended as tokens whose mask is 0, so
veRL never trains on them. The episode is scored here, by the task's own scoring, which reads
actions alone. A tool that breaks raises: veRL then leaves the trajectory out, and the engine is
told that it went unscored.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import (
    AgentLoopBase,
    AgentLoopMetrics,
    AgentLoopOutput,
)

from evoprompt.types import Turn
from evoprompt_search_qa import protocol, scoring
from evoprompt_search_qa.episode import Episode

GREEDY = "greedy"
"""Column of a row that is to be answered without sampling."""


class SearchAgentLoop(AgentLoopBase):  # type: ignore[misc]
    """Plays one episode; a subclass brings the tool and says how it is used."""

    max_searches: int
    """Searches an episode may make; a further one ends it without an answer."""

    @abstractmethod
    def sampling(self, session: int) -> Mapping[str, object]:
        """Sampling parameters of an action: how long it may be, and what ends it.

        Args:
            session: the number of the rollout in its group.
        """

    @abstractmethod
    def read(self, action: str) -> str:
        """What counts of the text that was sampled."""

    @abstractmethod
    async def observe(self, query: str) -> tuple[str, list[int]]:
        """What the policy is shown after a search, as text and as tokens.

        Raises:
            Exception: the tool is broken.
        """

    async def run(self, sampling_params: dict[str, Any], **columns: Any) -> AgentLoopOutput:
        """Plays the episode of one row of the dataset; veRL's entry point."""
        sampling = {
            **sampling_params,
            **self.sampling(int(columns["session_id"])),
            **({"temperature": 0.0} if columns.get(GREEDY) else {}),
        }
        episode = Episode(await self.ct_build_initial_tokens(list(columns["raw_prompt"])))
        versions = await self._play(episode, sampling)
        golds = columns["reward_model"]["ground_truth"]["target"]
        reward = scoring.exact_match(episode.turns, list(golds))
        return AgentLoopOutput(
            prompt_ids=episode.prompt_ids,
            response_ids=episode.completion_ids,
            response_mask=episode.policy_mask,
            response_logprobs=episode.logprobs,
            reward_score=reward,
            num_turns=2 * len(episode.turns),
            metrics=AgentLoopMetrics(num_preempted=0),
            extra_fields={**versions, "reward_extra_info": {"exact_match": reward}},
        )

    async def _play(self, episode: Episode, sampling: dict[str, Any]) -> dict[str, Any]:
        """Fills ``episode``; returns which versions of the weights spoke in it."""
        request = uuid4().hex
        versions: dict[str, Any] = {}
        while True:
            output = await self.server_manager.generate(
                request_id=request,
                prompt_ids=episode.prompt_ids + episode.completion_ids,
                sampling_params=dict(sampling),
            )
            if output.stop_reason == "aborted":
                raise RuntimeError("the rollout replica aborted an action")
            versions = {**output.extra_fields, **_oldest(versions)}
            said = self.tokenizer.decode(output.token_ids, skip_special_tokens=True)
            action = self.read(said)
            episode.completion_ids += output.token_ids
            episode.policy_mask += [1] * len(output.token_ids)
            episode.logprobs += output.log_probs or [0.0] * len(output.token_ids)
            query = protocol.find_query(action)
            if query is None or episode.searches == self.max_searches:
                episode.turns.append(Turn(action))
                return versions
            shown, ids = await self.observe(query)
            episode.completion_ids += ids
            episode.policy_mask += [0] * len(ids)
            episode.logprobs += [0.0] * len(ids)
            episode.turns.append(Turn(action, shown))


def _oldest(versions: Mapping[str, Any]) -> dict[str, Any]:
    name = "min_global_steps"
    return {name: versions[name]} if name in versions else {}
