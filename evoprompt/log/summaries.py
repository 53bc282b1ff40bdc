"""What the log is told of a step: sums, a few rollouts to read, and rewards that say nothing."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean

from evoprompt.config import EngineConfig
from evoprompt.log.events import Asked, Differed, Event, Excerpt, Shown, Told
from evoprompt.log.turns import clip, readable
from evoprompt.support.failures import FailureCount
from evoprompt.support.storage import SavedRecord
from evoprompt.types import Candidate, CandidateStats, Trajectory, Turn

_MOST_LISTED = 64  # candidates in one event: a log line stays a line in a population of thousands


def summarise_ask(
    step: int,
    candidate_stats: Sequence[CandidateStats],
    chances: Sequence[float],
    drawn: Sequence[Candidate],
    rollouts: int,
) -> Asked:
    """Who was drawn how often, for ``rollouts`` each, and how likely the likeliest were."""
    named = zip((stats.candidate.id for stats in candidate_stats), chances, strict=False)
    likeliest = sorted(named, key=lambda pair: -pair[1])[:_MOST_LISTED]
    draws = Counter(candidate.id for candidate in drawn).most_common(_MOST_LISTED)
    return Asked(step, dict(draws), rollouts, dict(likeliest))


def summarise_tell(
    step: int,
    rollouts: int,
    trajectories: Sequence[Trajectory],
    candidate_stats: Sequence[CandidateStats],
) -> Told:
    """Rewards, metrics and the weights of the heaviest candidates after attribution."""
    rewards: list[float] = []
    values: dict[str, list[float]] = {}
    rewards_by_group: dict[str, list[float]] = {}
    used: Counter[str] = Counter()
    candidates: dict[str, Candidate] = {}
    failure = ""
    for trajectory in trajectories:
        assignment, reward = trajectory.assignment, trajectory.reward
        used[assignment.candidate.id] += 1
        candidates[assignment.candidate.id] = assignment.candidate
        for name, value in trajectory.metrics.items():
            if name in values:
                values[name].append(value)
            else:
                values[name] = [value]
        if reward is None:
            failure = failure or trajectory.failure
            continue
        rewards.append(reward)
        if assignment.group in rewards_by_group:
            rewards_by_group[assignment.group].append(reward)
        else:
            rewards_by_group[assignment.group] = [reward]
    words = sum(len(candidates[id_].text.split()) * count for id_, count in used.items())
    heaviest = sorted(candidate_stats, key=lambda stats: -stats.weight)[:_MOST_LISTED]
    groups = [group for group in rewards_by_group.values() if len(group) > 1]
    return Told(
        step,
        rollouts,
        len(trajectories),
        len(trajectories) - len(rewards),
        fmean(rewards) if rewards else None,
        {stats.candidate.id: stats.weight for stats in heaviest},
        {name: fmean(found) for name, found in values.items()},
        words / len(trajectories) if trajectories else 0.0,
        {stats.candidate.id: stats.stderr for stats in heaviest if math.isfinite(stats.stderr)},
        failure,
        len(groups),
        sum(min(group) == max(group) for group in groups),
    )


_EVERY, _STEPS = 5, 2  # steps of a life: of every five the first two
_CANDIDATES = 6  # of a step
TRIED = 24
"""Most candidates of a verification to show."""
_CHARACTERS = 1_600  # of an excerpt, about
_TURNS = 12  # the last ones
_SHORTEST = 40  # characters of a text, however many there are
_DIFFERENT = 8  # questions of a step
_QUESTION = 160  # characters of one of them


def rollouts_to_log(trajectories: Sequence[Trajectory], step: int) -> list[Trajectory]:
    """Those of candidates in the first two of every five steps of their lives."""
    return [
        trajectory
        for trajectory in trajectories
        if (step - trajectory.candidate.born - 1) % _EVERY < _STEPS
    ]


def excerpts_of(
    trajectories: Sequence[Trajectory], candidates: int = _CANDIDATES
) -> tuple[Excerpt, ...]:
    """The worst and the best rollout of each of the candidates that were asked most.

    Of those only that a host has kept the text of; one where a candidate has a single reward.
    """
    asked = Counter(trajectory.candidate.id for trajectory in trajectories)
    found: list[Excerpt] = []
    for candidate, _ in asked.most_common(candidates):
        mine = [trajectory for trajectory in trajectories if trajectory.candidate.id == candidate]
        kept = sorted((one for one in mine if one.turns and one.reward is not None), key=_reward)
        if kept:
            same = _reward(kept[0]) == _reward(kept[-1])
            found += map(_excerpt, kept[:1] if same else [kept[0], kept[-1]])
    return tuple(found)


def rollout_events(
    step: int,
    trajectories: Sequence[Trajectory],
    shown: Sequence[Trajectory],
    candidates: int = _CANDIDATES,
) -> list[Event]:
    """Events for people to read: excerpts, and where candidates came out differently.

    Args:
        step: the engine step.
        trajectories: of a step, or of a verification.
        shown: those of them that excerpts are taken from.
        candidates: most of whom there are some.
    """
    excerpts = excerpts_of(shown, candidates)
    first: list[Event] = [Shown(step, excerpts)] if excerpts else []
    return [*first, *differences_of(step, trajectories)]


def differences_of(step: int, trajectories: Sequence[Trajectory]) -> tuple[Differed, ...]:
    """An event of the questions that candidates came out differently on; none if none were.

    It is the same in whichever order ``trajectories`` arrive.
    """
    means = {
        question: {candidate: fmean(found) for candidate, found in sorted(by_candidate.items())}
        for question, by_candidate in rewards_of(trajectories).items()
    }
    gaps = {name: max(found.values()) - min(found.values()) for name, found in means.items()}
    different = [name for name, gap in gaps.items() if gap]
    questions = {trajectory.question.id: trajectory.question for trajectory in trajectories}
    texts = {name: clip(questions[name].text, _QUESTION) for name in different}
    widest = sorted(different, key=lambda name: (-gaps[name], texts[name], name))
    if not widest:
        return ()
    return (Differed(step, {texts[name]: means[name] for name in widest[:_DIFFERENT]}),)


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


_MANY_FAILED = 0.05  # share of a step's rollouts from which a failure is more than a mishap
_NEXT_WARNING = 10  # times as many failures as at the last warning


class FailureWatch(SavedRecord):
    """Count of the training rollouts that have no reward.

    Attributes:
        failed: rollouts without a reward so far.
        rollouts: all training rollouts so far.
        reason: why the first of them failed; empty before.
        failed_at_warning: ``failed`` at the last warning; 0 before the first.
    """

    failed: int = 0
    rollouts: int = 0
    reason: str = ""
    failed_at_warning: int = 0

    @property
    def failures(self) -> FailureCount:
        """Return the counts as the record that evaluations and verifications use."""
        return FailureCount(self.failed, self.rollouts, self.reason)

    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> tuple[str, bool]:
        """Count the failures of a step.

        Args:
            step: the engine step.
            trajectories: everything that was told at this step.

        Returns:
            A message for the user, empty if there is none, and whether it is a warning. The first
            failure gives a message. A step with at least 5 % of failures gives a warning, and
            another one when there are ten times as many failures.
        """
        reasons = [trajectory.failure for trajectory in trajectories if trajectory.failure]
        is_first = bool(reasons) and not self.failed
        self.failed += len(reasons)
        self.rollouts += len(trajectories)
        if is_first:
            self.reason = reasons[0]
        has_many = bool(reasons) and len(reasons) >= _MANY_FAILED * len(trajectories)
        is_warning = has_many and self.failed >= _NEXT_WARNING * self.failed_at_warning
        if is_warning:
            self.failed_at_warning = self.failed
        elif not is_first:
            return "", False
        return (
            f"{len(reasons):,} of {len(trajectories):,} rollouts of step {step} have no reward, "
            f"the first because {reasons[0]}; such a rollout is not credited to its instruction; "
            "required: a finite reward for each; look at the reward function and at what ends "
            "rollouts early",
            is_warning,
        )


STRETCH = 20
"""Steps without a single failure, or with nothing else, after which a person is told."""

_ROUNDING = 1e-6  # of the range: rewards are sums in half or single precision


class RewardWatch(SavedRecord):
    """Looks at the rewards of every step.

    Attributes:
        failed: share of failures in each step of the stretch, 0 or 1; None outside of a stretch.
        steps: length of the stretch.
        outside: whether a reward was outside of the range.
    """

    failed: int | None = None
    steps: int = 0
    outside: bool = False

    def observe(
        self, config: EngineConfig, step: int, trajectories: Sequence[Trajectory]
    ) -> list[str]:
        """What a person should be told after ``step``: once a stretch, and once a run."""
        rewards = [t.reward for t in trajectories if t.reward is not None]
        if not rewards:
            return []
        return [*self._outside(config, step, rewards), *self._stretch(config, step, rewards)]

    def _outside(self, config: EngineConfig, step: int, rewards: Sequence[float]) -> list[str]:
        low, high = config.reward_range
        slack = _ROUNDING * (high - low)
        if self.outside or (min(rewards) >= low - slack and max(rewards) <= high + slack):
            return []
        self.outside = True
        return [
            f"rewards of step {step} go from {min(rewards):g} to {max(rewards):g}, reward_range is "
            f"[{low:g}, {high:g}]: what counts as a failure and how sharply candidates are told "
            "apart follow from it; set reward_range to the least and the greatest reward there is"
        ]

    def _stretch(self, config: EngineConfig, step: int, rewards: Sequence[float]) -> list[str]:
        bar = config.failure_threshold
        failures = sum(reward < bar for reward in rewards)
        kind = {0: 0, len(rewards): 1}.get(failures)
        same = kind is not None and kind == self.failed
        self.steps, self.failed = (self.steps + 1 if same else 1), kind
        if kind is None or self.steps != STRETCH:
            return []
        found, effect = (
            ("all trajectories are failures", "instructions can hardly be told apart")
            if kind
            else ("no trajectory is a failure", "the proposer has nothing new to learn from")
        )
        return [
            f"in each of the last {STRETCH} steps up to step {step}, {found} (a reward below "
            f"{bar:g}): {effect}; if this is not what the policy is like, check the reward "
            "function, reward_range and failure_below"
        ]


def rewards_of(trajectories: Sequence[Trajectory]) -> Mapping[str, Mapping[str, Sequence[float]]]:
    """Return the rewards of the scored ``trajectories`` by question and candidate."""
    rewards: dict[str, dict[str, list[float]]] = {}
    for trajectory in trajectories:
        if trajectory.reward is not None:
            assignment = trajectory.assignment
            question, candidate = assignment.question.id, assignment.candidate.id
            if question not in rewards:
                rewards[question] = {}
            if candidate in rewards[question]:
                rewards[question][candidate].append(trajectory.reward)
            else:
                rewards[question][candidate] = [trajectory.reward]
    return rewards
