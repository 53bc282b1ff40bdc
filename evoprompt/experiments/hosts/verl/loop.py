"""Agent loop of veRL that plays an episode of any task; Ray's agent loop workers run it.

The rollout replicas sample actions, the task's tools answer calls, and the task scores the episode
here. If a tool breaks, the loop raises: veRL then leaves the trajectory out, the engine counts it
as unscored, and a notice of the run has the reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from evoprompt_verl.outcomes import FEEDBACK
from omegaconf import DictConfig
from verl.experimental.agent_loop.agent_loop import (
    AgentLoopBase,
    AgentLoopMetrics,
    AgentLoopOutput,
)

from evoprompt.agents import (
    Action,
    ChatTokenizer,
    Sample,
    Sampling,
    ToolCaller,
    Tools,
    ToolUnavailable,
    described,
    play_one,
)
from evoprompt.agents.tasks import EpisodeRunner, Task, limits_of, scored
from evoprompt.experiments.hosts.verl.failures import Failures
from evoprompt.experiments.hosts.verl.rows import GREEDY, SPLIT, question_of
from evoprompt.experiments.hosts.verl.section import task_of
from evoprompt.hosting.prompts import without_tool_descriptions
from evoprompt.plugins import build

SCORE = "score"
"""Extra field of a trajectory that holds the whole score."""


_COUNTED = ("tool_calls", "response_tokens")
"""Metrics that the adapter counts itself, under any agent loop."""


class TaskLoop(AgentLoopBase):  # type: ignore[misc]
    """Agent loop that plays one episode.

    Args:
        task: the section of a configuration that names the task, or its JSON text; the task is
            built by it here. By default that of ``evoprompt.task`` on veRL's command line.
        max_calls: most tool calls; None for the task's own limit.
        turn_tokens: most tokens of an action; None for the task's own limit.
        seeded: whether rollouts of the same number draw the same numbers, for a rollout backend
            that mixes a request's seed with its prompt.
        failures: file for the reasons of episodes without a score.
    """

    def __init__(
        self,
        *positional: Any,
        task: Mapping[str, object] | str | None = None,
        max_calls: int | None = None,
        turn_tokens: int | None = None,
        seeded: bool = False,
        failures: str | None = None,
        **named: Any,
    ) -> None:
        super().__init__(*positional, **named)
        self._section = task_of(self.config, task)
        self._limits = (max_calls, turn_tokens)
        self._seeded = seeded
        self._failures = Failures(Path(failures)) if failures else None

    @staticmethod
    def template_tools(config: DictConfig, definition: DictConfig) -> list[dict[str, Any]]:
        """Return the tools that the chat template shows; the adapter measures prompts with them.

        Args:
            config: of the run.
            definition: of this loop in the agent loop file.
        """
        task: Task = build("task", json.loads(task_of(config, definition.get("task"))))
        allowed = definition.get("max_calls") != 0 and task.tools
        return Tools(task.tools).schemas if allowed else []

    async def run(self, sampling_params: dict[str, Any], **columns: Any) -> AgentLoopOutput:
        """Play the episode of one row of the dataset; veRL's entry point.

        Raises:
            ToolUnavailable: a tool or a replica broke.
            Exception: any exception of the task.
        """
        try:
            return await self._play(sampling_params, columns)
        except Exception as error:
            if self._failures:
                self._failures.record(error)
            raise

    async def _play(
        self, sampling_params: Mapping[str, Any], columns: Mapping[str, Any]
    ) -> AgentLoopOutput:
        task = _task(self._section)
        rollout = self.config.actor_rollout_ref.rollout
        variables = self.config.data.get("apply_chat_template_kwargs") or {}
        runner = _runner(self._section, self._limits, self.tokenizer, json.dumps(dict(variables)))
        sampling = {
            **sampling_params,
            # veRL itself passes 1.0, without regard to the configuration.
            "repetition_penalty": float(rollout.get("repetition_penalty", 1.0)),
            **_stopping(runner.agent.sampling),
            **({"seed": int(columns["session_id"])} if self._seeded else {}),
            **({"temperature": 0.0} if columns.get(GREEDY) else {}),
        }
        request = uuid4().hex
        versions: dict[str, Any] = {}
        has_logprobs = False

        async def sample(request_sample: Sample) -> Action:
            nonlocal has_logprobs
            output = await self.server_manager.generate(
                request_id=request,
                prompt_ids=request_sample.episode.context,
                sampling_params=dict(sampling),
            )
            if output.stop_reason == "aborted":
                raise ToolUnavailable("the rollout replica aborted an action")
            versions.update({**output.extra_fields, **_oldest(versions)})
            has_logprobs = has_logprobs or bool(output.log_probs)
            return Action(output.token_ids, output.log_probs or None)

        messages, descriptions = without_tool_descriptions(list(columns["raw_prompt"]))
        tools = described(runner.schemas, descriptions)
        prompt_ids = await self.ct_build_initial_tokens(messages, tools=tools or None)
        caller = _caller(self._section, str(columns.get(SPLIT, "train")))
        episode = await play_one(runner.agent.play(prompt_ids), sample, caller.one)
        score = scored(task, episode, question_of(columns))
        if score is None:
            raise ToolUnavailable(episode.error)
        numbers = {name: score.metrics[name] for name in score.metrics if name not in _COUNTED}
        return AgentLoopOutput(
            prompt_ids=episode.prompt_ids,
            response_ids=episode.completion_ids,
            response_mask=episode.policy_mask,
            response_logprobs=episode.logprobs if has_logprobs else None,
            reward_score=score.reward,
            num_turns=2 * len(episode.turns),
            metrics=AgentLoopMetrics(num_preempted=0),
            extra_fields={
                **versions,
                SCORE: asdict(replace(score, metrics=dict(score.metrics))),
                "reward_extra_info": {**numbers, FEEDBACK: score.feedback},
            },
        )


@cache
def _task(section: str) -> Task:
    """Return the task of a section, one per worker: its episodes share questions and tools."""
    task: Task = build("task", json.loads(section))
    return task


@cache
def _caller(section: str, split: str) -> ToolCaller:
    return _task(section).caller(split)


@cache
def _runner(
    section: str,
    limits: tuple[int | None, int | None],
    tokenizer: ChatTokenizer,
    variables: str,
) -> EpisodeRunner:
    task = _task(section)
    return EpisodeRunner(task, tokenizer, limits_of(task, *limits), json.loads(variables))


def _stopping(sampling: Sampling) -> Mapping[str, object]:
    """Return the limit of an action, and its stop texts for vLLM."""
    stops = {"stop": list(sampling.stop), "include_stop_str_in_output": True}
    return {"max_tokens": sampling.max_tokens, **(stops if sampling.stop else {})}


def _oldest(versions: Mapping[str, Any]) -> dict[str, Any]:
    name = "min_global_steps"
    return {name: versions[name]} if name in versions else {}
