"""What the engine is told of a group: the rewards that are trained on, and what was said."""

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
        sum(turn.reward for turn in trajectory.transitions) + more
        for trajectory, more in zip(trajectories, added, strict=True)
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
    said = [_text(turn.ac.tokens, tokenizer) for turn in transitions]
    answered = [_answer(before, after, tokenizer) for before, after in pairwise(transitions)]
    return tuple(map(Turn, said, [*answered, ""]))


def _answer(before: HostTransition, after: HostTransition, tokenizer: HostTokenizer) -> str:
    """Return the new part of the next prompt; all of it if it does not continue the last one."""
    known = [*_tokens(before), *before.ac.tokens]
    shown = _tokens(after)
    return _text(shown[len(known) :] if shown[: len(known)] == known else shown, tokenizer)


def _tokens(turn: HostTransition) -> list[int]:
    return [token for chunk in turn.ob.chunks for token in getattr(chunk, "tokens", ())]


def _text(tokens: Sequence[int], tokenizer: HostTokenizer) -> str:
    return tokenizer.decode(list(tokens), skip_special_tokens=True)


def _opening(env: object) -> tuple[Turn, ...]:
    asked = str(getattr(env, ASKED, ""))
    return (Turn("", asked),) if asked else ()


def _metrics(transitions: Sequence[HostTransition]) -> dict[str, float]:
    """Return the tokens of the policy, and the metrics of the environment at the end."""
    last: Mapping[str, float] = transitions[-1].metrics if transitions else {}
    numbers = {
        name: float(value)
        for name, value in last.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }
    return {**numbers, "response_tokens": float(sum(len(turn.ac.tokens) for turn in transitions))}
