"""Rewards are those that the cookbook trains on; what was said is told in turns."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import tinker
from evoprompt_tinker.outcomes import rewards, turns
from tinker_cookbook.completers import TokensWithLogprobs
from tinker_cookbook.rl.rollout_limits import TerminationRewardPolicy
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, StepResult, Trajectory, Transition

from evoprompt.types import Turn


class Letters:
    """A tokenizer of one token a letter, of which 0 is special."""

    all_special_tokens: ClassVar[list[str]] = ["<end>"]

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [ord(letter) for letter in text]

    def decode(self, token_ids: list[int], skip_special_tokens: bool = False) -> str:
        return "".join(chr(token) for token in token_ids if token)


def turn(asked: str, said: str, reward: float = 0.0, **metrics: float) -> Transition:
    return Transition(
        tinker.ModelInput.from_ints(Letters().encode(asked)),
        TokensWithLogprobs([*Letters().encode(said), 0], None),
        reward,
        True,
        metrics,
    )


def trajectory(*transitions: Transition, stopped: str | None = None) -> Trajectory:
    return Trajectory(list(transitions), tinker.ModelInput.empty(), stop_reason=stopped)


class Says(Env):  # type: ignore[misc]
    """Ends after one turn, with a reward and a reason."""

    def __init__(self, reward: float, stopped: str | None) -> None:
        self.reward, self.stopped = reward, stopped

    async def initial_observation(self) -> tuple[tinker.ModelInput, list[int]]:
        return tinker.ModelInput.from_ints([1]), [0]

    async def step(self, action: list[int], *, extra: object = None) -> StepResult:
        metrics = {f"stop/{self.stopped}": 1.0} if self.stopped else {}
        return StepResult(self.reward, True, tinker.ModelInput.empty(), [0], metrics)


class Cases(EnvGroupBuilder):  # type: ignore[misc]
    """A group whose builder adds rewards of its own."""

    steps = (0.5, 0.5, -0.5, 0.25)
    stopped = (None, "max_tokens", "max_turns", "completed")
    added = (1.0, 1.0, 0.1, -1.0)

    async def make_envs(self) -> list[Says]:
        return [Says(*case) for case in zip(self.steps, self.stopped, strict=True)]

    async def compute_group_rewards(self, trajectory_group: object, env_group: object) -> object:
        return [(reward, {}) for reward in self.added]


class Silence:
    """A policy that says nothing but the end."""

    async def __call__(self, *arguments: object, **options: object) -> TokensWithLogprobs:
        return TokensWithLogprobs([0], [0.0])


async def _trained(
    termination: TerminationRewardPolicy | None,
) -> tuple[list[float], list[Trajectory]]:
    group = await do_group_rollout(Cases(), Silence(), termination=termination)
    return group.get_total_rewards(), group.trajectories_G


async def _compared(termination: TerminationRewardPolicy | None, limited: tuple[str, ...]) -> None:
    trained, trajectories = await _trained(termination)
    assert rewards(trajectories, Cases.added, limited) == trained
    assert (trained[1] > 0) == (not limited)


def test_rewards_are_the_sums_that_the_cookbook_trains_on() -> None:
    asyncio.run(_compared(None, ()))


def test_limits_clamp_rewards_as_in_the_cookbook() -> None:
    rule = TerminationRewardPolicy(zero_reward_on_limit=True)
    asyncio.run(_compared(rule, rule.limit_stop_reasons))


def test_an_answer_is_what_the_next_prompt_adds() -> None:
    first = turn("ask:", "look")
    second = turn("ask:look\0found it. ", "done")
    assert turns([first, second], Letters()) == (Turn("look", "found it. "), Turn("done"))


def test_a_prompt_that_was_written_anew_is_told_whole() -> None:
    rewritten = turn("summary: ", "done")
    found = turns([turn("ask:", "look"), rewritten], Letters())
    assert found == (Turn("look", "summary: "), Turn("done"))
