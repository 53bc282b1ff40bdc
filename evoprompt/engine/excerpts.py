"""Which rollouts of a step a person is shown, and how much of them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from evoprompt.events import Excerpt
from evoprompt.proposers.episodes import clip
from evoprompt.turns import readable
from evoprompt.types import Trajectory, Turn

_EVERY, _STEPS = 5, 2  # steps of a life: of every five the first two
_CANDIDATES = 6  # of a step
_TRIED = 24  # of a verification
_CHARACTERS = 1_600  # of an excerpt, about
_TURNS = 12  # the last ones
_SHORTEST = 40  # characters of a text, however many there are


def due_to_show(trajectories: Sequence[Trajectory], step: int) -> list[Trajectory]:
    """Those of candidates in the first two of every five steps of their lives."""
    return [one for one in trajectories if (step - one.candidate.born - 1) % _EVERY < _STEPS]


def answers_of(trajectories: Sequence[Trajectory]) -> tuple[Excerpt, ...]:
    """The same as :func:`excerpts_of`, of a verification, with more candidates."""
    return excerpts_of(trajectories, _TRIED)


def excerpts_of(
    trajectories: Sequence[Trajectory], candidates: int = _CANDIDATES
) -> tuple[Excerpt, ...]:
    """The worst and the best rollout of each of the candidates that were asked most.

    Of those only that a host has kept the text of; one where a candidate has a single reward.
    """
    asked = Counter(one.candidate.id for one in trajectories)
    found: list[Excerpt] = []
    for candidate, _ in asked.most_common(candidates):
        mine = [one for one in trajectories if one.candidate.id == candidate]
        kept = sorted((one for one in mine if one.turns and one.reward is not None), key=_reward)
        if kept:
            same = _reward(kept[0]) == _reward(kept[-1])
            found += map(_excerpt, kept[:1] if same else [kept[0], kept[-1]])
    return tuple(found)


def _reward(trajectory: Trajectory) -> float:
    return 0.0 if trajectory.reward is None else trajectory.reward


def _excerpt(trajectory: Trajectory) -> Excerpt:
    question = trajectory.question
    turns = [_legible(turn) for turn in trajectory.turns]
    texts = [question.text, " or ".join(question.answers), trajectory.feedback]
    whole = sum(len(text) for text in (*texts, *itertools.chain(*turns)))
    texts += itertools.chain(*turns[-_TURNS:])
    most = _share([len(text) for text in texts])
    asked, answers, feedback, *said = (clip(text, most) for text in texts)
    return Excerpt(
        trajectory.candidate.id,
        asked,
        answers,
        _reward(trajectory),
        tuple(Turn(action, seen) for action, seen in zip(said[::2], said[1::2], strict=True)),
        feedback,
        whole - sum(map(len, (asked, answers, feedback, *said))),
    )


def _legible(turn: Turn) -> tuple[str, str]:
    """Action and observation as a person reads them."""
    thought, said, seen = readable(turn)
    return (f"<think>{thought}</think>\n{said}" if thought else said), seen


def _share(lengths: Sequence[int]) -> int:
    """Most characters of a text so that all fit: what short ones leave, the long ones get."""
    room = _CHARACTERS
    for done, length in enumerate(sorted(lengths)):
        share = room // (len(lengths) - done)
        if length > share:
            return max(share, _SHORTEST)
        room -= length
    return max(lengths)
