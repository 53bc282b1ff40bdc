"""Outcomes of a group for the engine: the rewards of the training, and the turns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from evoprompt.hosting.binding import RolloutOutcome
from evoprompt.types import Turn
from evoprompt_tinker.host import HostTokenizer, HostTrajectory, HostTransition
from evoprompt_tinker.prompts import ASKED


def rewards(
    trajectories: Sequence[HostTrajectory],
    added: Sequence[float],
    limited: Sequence[str],
) -> list[float]:
    """Return the rewards of the training.

    Those of the steps and of the group, summed; where the training has a rule for rollouts that a
    limit ended, at most 0 for these.

    Args:
        trajectories: of one group.
        added: rewards of ``compute_group_rewards``.
        limited: reasons to stop for which that rule holds; the cookbook applies it afterwards.
    """
    totals = [
        sum(turn.reward for turn in trajectory.transitions) + group_reward
        for trajectory, group_reward in zip(trajectories, added, strict=True)
    ]
    return [
        min(total, 0.0) if trajectory.stop_reason in limited else total
        for trajectory, total in zip(trajectories, totals, strict=True)
    ]


def outcomes(
    trajectories: Sequence[HostTrajectory],
    scored: Sequence[float],
    envs: Sequence[object],
    tokenizer: HostTokenizer,
) -> list[RolloutOutcome]:
    """Return the outcomes of the finished rollouts of a group.

    Args:
        trajectories: trajectories in any order, perhaps none.
        scored: their rewards.
        envs: their environments.
        tokenizer: decodes the actions.
    """
    return [
        RolloutOutcome(
            reward,
            _metrics(trajectory.transitions),
            (*_opening(env), *turns(trajectory.transitions, tokenizer)),
        )
        for trajectory, reward, env in zip(trajectories, scored, envs, strict=True)
    ]


def turns(transitions: Sequence[HostTransition], tokenizer: HostTokenizer) -> tuple[Turn, ...]:
    """Return the actions, and the observation after each turn but the last."""
    actions = [_text(turn.ac.tokens, tokenizer) for turn in transitions]
    observations = [_answer(before, after, tokenizer) for before, after in pairwise(transitions)]
    return tuple(map(Turn, actions, [*observations, ""]))


def _answer(before: HostTransition, after: HostTransition, tokenizer: HostTokenizer) -> str:
    """Return the new part of the next prompt; all of it if it does not continue the last one."""
    previous_tokens = [*_tokens(before), *before.ac.tokens]
    prompt_tokens = _tokens(after)
    return _text(
        prompt_tokens[len(previous_tokens) :]
        if prompt_tokens[: len(previous_tokens)] == previous_tokens
        else prompt_tokens,
        tokenizer,
    )


def _tokens(turn: HostTransition) -> list[int]:
    return [token for chunk in turn.ob.chunks for token in getattr(chunk, "tokens", ())]


def _text(tokens: Sequence[int], tokenizer: HostTokenizer) -> str:
    return tokenizer.decode(list(tokens), skip_special_tokens=True)


def _opening(env: object) -> tuple[Turn, ...]:
    question_text = str(getattr(env, ASKED, ""))
    return (Turn("", question_text),) if question_text else ()


def _metrics(transitions: Sequence[HostTransition]) -> dict[str, float]:
    """Return the tokens of the policy, and the metrics of the environment at the end."""
    last: Mapping[str, float] = transitions[-1].metrics if transitions else {}
    numbers = {
        name: float(value)
        for name, value in last.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }
    return {**numbers, "response_tokens": float(sum(len(turn.ac.tokens) for turn in transitions))}
