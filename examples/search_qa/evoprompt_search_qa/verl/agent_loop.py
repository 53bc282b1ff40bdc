"""An episode of the search protocol as an agent loop of veRL.

Actions are sampled by the rollout replicas. The episode is scored here, by the task's own scoring,
which reads actions alone. A tool that breaks raises: veRL then leaves the trajectory out, and the
engine is told that it went unscored.
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

from evoprompt.agents import Action, Agent, Call, Sample, play_one
from evoprompt_search_qa import scoring

GREEDY = "greedy"
"""Column of a row that is to be answered without sampling."""


class SearchAgentLoop(AgentLoopBase):  # type: ignore[misc]
    """Plays one episode; a subclass brings the agent and its tool."""

    agent: Agent

    @abstractmethod
    def sampling(self, session: int) -> Mapping[str, object]:
        """Sampling parameters of an action: how long it may be, and what ends it.

        Args:
            session: the number of the rollout in its group.
        """

    @abstractmethod
    async def call(self, call: Call) -> str:
        """The result of a call.

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
        request = uuid4().hex
        versions: dict[str, Any] = {}

        async def sample(wanted: Sample) -> Action:
            output = await self.server_manager.generate(
                request_id=request,
                prompt_ids=wanted.episode.context,
                sampling_params=dict(sampling),
            )
            if output.stop_reason == "aborted":
                raise RuntimeError("the rollout replica aborted an action")
            versions.update({**output.extra_fields, **_oldest(versions)})
            return Action(output.token_ids, output.log_probs or None)

        prompt_ids = await self.ct_build_initial_tokens(list(columns["raw_prompt"]))
        episode = await play_one(self.agent.play(prompt_ids), sample, self.call)
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


def _oldest(versions: Mapping[str, Any]) -> dict[str, Any]:
    name = "min_global_steps"
    return {name: versions[name]} if name in versions else {}
