"""A real environment in a real training, whose rollouts are had through the gateway."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import verifiers.v1 as vf
from async_grpo_kills import GROUPS, ROLLOUTS, SEEDS, STEPS, Policy, Worker, trained
from renderers.configs import DefaultRendererConfig
from verifiers.v1.utils.loaders import load_environment

from evoprompt.gateway import Gateway


class Episodes(Worker):
    """Plays episodes of an environment, and hands their traces to the trainer."""

    def __init__(self, gateway: Gateway, journal: Path, first: int, folder: Path, url: str) -> None:
        super().__init__(gateway, journal, first)
        config = {
            "taskset": {"id": "training_environment"},
            "agent": {"runtime": {"type": "subprocess"}},
        }
        self.env = load_environment(vf.SingleAgentEnvConfig.model_validate(config))
        sys.modules["training_environment"].Placed.gateway = gateway
        self.tasks = list(self.env.taskset.take(8))
        client = vf.TrainClientConfig(
            base_url=url,
            api_key_var="LOCAL_KEY",
            renderer=DefaultRendererConfig(),
            renderer_model_name=str(folder),
        )
        self.context = vf.ModelContext(model="policy", client=client)
        self.loop = asyncio.new_event_loop()

    def work(self) -> None:
        async def serve() -> None:
            async with self.env.serving():
                await asyncio.to_thread(super(Episodes, self).work)

        try:
            self.loop.run_until_complete(serve())
        except BaseException as error:
            self.failure = error

    def group(self, number: int, text: str) -> None:
        task = self.tasks[number % len(self.tasks)]

        async def played() -> list[vf.Episode]:
            slots = self.env.slots(task, ROLLOUTS)
            return await asyncio.gather(*(self.env.run_slot(slot, self.context) for slot in slots))

        episodes = asyncio.run_coroutine_threadsafe(played(), self.loop).result()
        assert all(episode.ok for episode in episodes), [episode.errors for episode in episodes]
        traces = [episode.traces[0] for episode in episodes]
        mean = sum(trace.reward for trace in traces) / ROLLOUTS
        for trace in traces:
            self.rollout_buffer.put(self.sample(number, text, had(trace), trace.reward - mean))


def had(trace: vf.Trace) -> Mapping[str, Any]:
    """A trace in the form of an answer of the policy's server."""
    (branch,) = trace.branches
    rows = list(zip(branch.token_ids, branch.sampled_mask, branch.logprobs, strict=True))
    choice = {
        "message": {"role": "assistant", "content": trace.last_reply},
        "token_ids": [token for token, sampled, _ in rows if sampled],
        "logprobs": {"content": [{"logprob": one} for _, sampled, one in rows if sampled]},
    }
    prompt = [token for token, sampled, _ in rows if not sampled]
    return {"answer": {"choices": [choice], "prompt_token_ids": prompt}, "reward": trace.reward}


def test_an_environment_trains_a_policy_and_its_instruction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    policy = Policy()
    folder = tmp_path / "tokenizer"
    policy.tokenizer.save_pretrained(folder)

    def worker(gateway: Gateway, journal: Path, first: int) -> Episodes:
        return Episodes(gateway, journal, first, folder, policy.url)

    found = trained(tmp_path, "http://127.0.0.1:9/v1", policy, worker=worker)
    assert found["step"] == STEPS
    told = [event for event in found["events"] if event["event"] == "step_completed"]
    assert len(told) == STEPS + 1
    assert all((one["unscored"], one["trajectories"]) == (0, ROLLOUTS * GROUPS) for one in told)
    assert len({one["reward"] for one in told}) > 1
    assert all(any(seed in prompt for prompt in policy.systems) for seed in SEEDS)
    # What the trainer scored are the prompts that were sampled under: the ratio is 1 at first.
    assert found["first"]["ratio"] == pytest.approx(1.0, abs=1e-4)
