"""Sums a step up in one event, however many candidates and trajectories it had."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from evoprompt.events import Asked, Remark, Told
from evoprompt.types import Candidate, CandidateStats, Trajectory

_MOST_LISTED = 64  # candidates in one event: a log line stays a line in a population of thousands

_MOST_REMARKS = 8  # feedback in one event, of the candidates that fared worst
_LONGEST_REMARK = 300  # characters


def summarise_ask(
    step: int,
    candidate_stats: Sequence[CandidateStats],
    chances: Sequence[float],
    drawn: Sequence[Candidate],
) -> Asked:
    """Who was drawn how often, and how likely the likeliest were."""
    named = zip((stats.candidate.id for stats in candidate_stats), chances, strict=False)
    likeliest = sorted(named, key=lambda pair: -pair[1])[:_MOST_LISTED]
    draws = Counter(candidate.id for candidate in drawn).most_common(_MOST_LISTED)
    return Asked(step, dict(draws), dict(likeliest))


def summarise_tell(
    step: int,
    rollouts: int,
    trajectories: Sequence[Trajectory],
    candidate_stats: Sequence[CandidateStats],
) -> Told:
    """Rewards, metrics and the weights of the heaviest candidates after attribution."""
    rewards = [t.reward for t in trajectories if t.reward is not None]
    values: dict[str, list[float]] = {}
    for trajectory in trajectories:
        for name, value in trajectory.metrics.items():
            values.setdefault(name, []).append(value)
    used = Counter(trajectory.candidate.id for trajectory in trajectories)
    candidates = {trajectory.candidate.id: trajectory.candidate for trajectory in trajectories}
    words = sum(len(candidates[id_].text.split()) * count for id_, count in used.items())
    heaviest = sorted(candidate_stats, key=lambda stats: -stats.weight)[:_MOST_LISTED]
    spoken = [t for t in trajectories if t.reward is not None and t.feedback]
    worst: dict[str, Remark] = {}
    for trajectory in sorted(spoken, key=lambda one: one.reward or 0.0):
        if len(worst) < _MOST_REMARKS and trajectory.candidate.id not in worst:
            said = trajectory.feedback[:_LONGEST_REMARK]
            worst[trajectory.candidate.id] = Remark(trajectory.reward or 0.0, said)
    return Told(
        step,
        rollouts,
        len(trajectories),
        len(trajectories) - len(rewards),
        fmean(rewards) if rewards else None,
        {stats.candidate.id: stats.weight for stats in heaviest},
        {name: fmean(found) for name, found in values.items()},
        words / len(trajectories) if trajectories else 0.0,
        worst,
        {stats.candidate.id: stats.stderr for stats in heaviest if math.isfinite(stats.stderr)},
    )
