"""Summaries of a step for the log: totals, rollouts to read, and uninformative rewards."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

from evoprompt.config import EngineConfig
from evoprompt.log.events import (
    CandidatesDisagreed,
    Event,
    Excerpt,
    QuestionsAssigned,
    RolloutSamples,
    StepCompleted,
)
from evoprompt.log.turns import clip, readable
from evoprompt.support.failures import FailureCount
from evoprompt.support.storage import SavedRecord
from evoprompt.types import Candidate, CandidateStats, Trajectory, Turn

_MAX_LISTED = 64  # candidates in one event: a log line stays a line in a population of thousands


def summarise_ask(
    step: int,
    candidate_stats: Sequence[CandidateStats],
    chances: Sequence[float],
    drawn_candidates: Sequence[Candidate],
    rollouts: int,
) -> QuestionsAssigned:
    """Count the draws of each candidate.

    The event also has the ``rollouts`` of each draw and the highest selection probabilities.
    """
    named = zip((stats.candidate.id for stats in candidate_stats), chances, strict=False)
    likeliest = sorted(named, key=lambda pair: -pair[1])[:_MAX_LISTED]
    counts = Counter(candidate.id for candidate in drawn_candidates).most_common(_MAX_LISTED)
    return QuestionsAssigned(step, dict(counts), rollouts, dict(likeliest))


def summarise_tell(
    step: int,
    rollouts: int,
    trajectories: Sequence[Trajectory],
    candidate_stats: Sequence[CandidateStats],
) -> StepCompleted:
    """Summarize the rewards, metrics and highest weights of a step after attribution."""
    rewards: list[float] = []
    values: defaultdict[str, list[float]] = defaultdict(list)
    rewards_by_group: defaultdict[str, list[float]] = defaultdict(list)
    used: Counter[str] = Counter()
    candidates: dict[str, Candidate] = {}
    failure = ""
    for trajectory in trajectories:
        assignment, reward = trajectory.assignment, trajectory.reward
        used[assignment.candidate.id] += 1
        candidates[assignment.candidate.id] = assignment.candidate
        for name, value in trajectory.metrics.items():
            values[name].append(value)
        if reward is None:
            failure = failure or trajectory.failure
            continue
        rewards.append(reward)
        rewards_by_group[assignment.group].append(reward)
    words = sum(len(candidates[id_].text.split()) * count for id_, count in used.items())
    heaviest = sorted(candidate_stats, key=lambda stats: -stats.weight)[:_MAX_LISTED]
    groups = [group for group in rewards_by_group.values() if len(group) > 1]
    return StepCompleted(
        step,
        rollouts,
        len(trajectories),
        len(trajectories) - len(rewards),
        fmean(rewards) if rewards else None,
        {stats.candidate.id: stats.weight for stats in heaviest},
        {name: fmean(numbers) for name, numbers in values.items()},
        words / len(trajectories) if trajectories else 0.0,
        {stats.candidate.id: stats.stderr for stats in heaviest if math.isfinite(stats.stderr)},
        failure,
        len(groups),
        sum(min(group) == max(group) for group in groups),
    )


_PERIOD, _STEPS = 5, 2  # of every five steps after its admission, the first two
_CANDIDATES = 6  # of a step
TRIED = 24
"""Maximum number of candidates of a verification in the excerpts."""
_CHARACTERS = 1_600  # of an excerpt, about
_TURNS = 12  # the last ones
_MIN_TEXT = 40  # characters of a text, however many there are
_MAX_QUESTIONS = 8  # questions of a step
_QUESTION = 160  # characters of a question


def rollouts_to_log(trajectories: Sequence[Trajectory], step: int) -> list[Trajectory]:
    """Return rollouts of candidates in the first two of every five steps after admission."""
    return [
        trajectory
        for trajectory in trajectories
        if (step - trajectory.candidate.born - 1) % _PERIOD < _STEPS
    ]


def excerpts_of(
    trajectories: Sequence[Trajectory], candidates: int = _CANDIDATES
) -> tuple[Excerpt, ...]:
    """Return the worst and the best rollout of each of the candidates with most rollouts.

    Only rollouts with text are used; if a candidate has a single reward, one rollout is returned.
    """
    counts = Counter(trajectory.candidate.id for trajectory in trajectories)
    excerpts: list[Excerpt] = []
    for candidate, _ in counts.most_common(candidates):
        own_trajectories = [
            trajectory for trajectory in trajectories if trajectory.candidate.id == candidate
        ]
        scored_trajectories = sorted(
            (
                trajectory
                for trajectory in own_trajectories
                if trajectory.turns and trajectory.reward is not None
            ),
            key=_reward,
        )
        if scored_trajectories:
            has_one_reward = _reward(scored_trajectories[0]) == _reward(scored_trajectories[-1])
            excerpts += map(
                _excerpt,
                scored_trajectories[:1]
                if has_one_reward
                else [scored_trajectories[0], scored_trajectories[-1]],
            )
    return tuple(excerpts)


def rollout_events(
    step: int,
    trajectories: Sequence[Trajectory],
    to_excerpt: Sequence[Trajectory],
    candidates: int = _CANDIDATES,
) -> list[Event]:
    """Return events to read: excerpts, and questions with different rewards of candidates.

    Args:
        step: the engine step.
        trajectories: trajectories of a step, or of a verification.
        to_excerpt: those of them from which excerpts are taken.
        candidates: maximum number of candidates with excerpts.
    """
    excerpts = excerpts_of(to_excerpt, candidates)
    first: list[Event] = [RolloutSamples(step, excerpts)] if excerpts else []
    return [*first, *differences_of(step, trajectories)]


def differences_of(
    step: int, trajectories: Sequence[Trajectory]
) -> tuple[CandidatesDisagreed, ...]:
    """Return an event of the questions with different rewards of candidates, or nothing.

    The event does not depend on the order of ``trajectories``.
    """
    means = {
        question: {candidate: fmean(rewards) for candidate, rewards in sorted(by_candidate.items())}
        for question, by_candidate in rewards_of(trajectories).items()
    }
    gaps = {
        name: max(by_candidate.values()) - min(by_candidate.values())
        for name, by_candidate in means.items()
    }
    questions_with_gaps = [name for name, gap in gaps.items() if gap]
    questions = {trajectory.question.id: trajectory.question for trajectory in trajectories}
    texts = {name: clip(questions[name].text, _QUESTION) for name in questions_with_gaps}
    widest = sorted(questions_with_gaps, key=lambda name: (-gaps[name], texts[name], name))
    if not widest:
        return ()
    return (
        CandidatesDisagreed(step, {texts[name]: means[name] for name in widest[:_MAX_QUESTIONS]}),
    )


def _reward(trajectory: Trajectory) -> float:
    return 0.0 if trajectory.reward is None else trajectory.reward


def _excerpt(trajectory: Trajectory) -> Excerpt:
    question = trajectory.question
    turns = [_legible(turn) for turn in trajectory.turns]
    texts = [question.text, " or ".join(question.answers), trajectory.feedback]
    whole = sum(len(text) for text in (*texts, *itertools.chain(*turns)))
    texts += itertools.chain(*turns[-_TURNS:])
    limit = _share([len(text) for text in texts])
    question_text, answers, feedback, *turn_texts = (clip(text, limit) for text in texts)
    return Excerpt(
        trajectory.candidate.id,
        question_text,
        answers,
        _reward(trajectory),
        tuple(
            Turn(action, seen)
            for action, seen in zip(turn_texts[::2], turn_texts[1::2], strict=True)
        ),
        feedback,
        whole - sum(map(len, (question_text, answers, feedback, *turn_texts))),
    )


def _legible(turn: Turn) -> tuple[str, str]:
    """Return action and observation in readable form."""
    thought, action, observation = readable(turn)
    return (f"<think>{thought}</think>\n{action}" if thought else action), observation


def _share(lengths: Sequence[int]) -> int:
    """Return the characters of a text such that all fit; long texts get what short ones leave."""
    room = _CHARACTERS
    for done, length in enumerate(sorted(lengths)):
        share = room // (len(lengths) - done)
        if length > share:
            return max(share, _MIN_TEXT)
        room -= length
    return max(lengths)


_WARNING_SHARE = 0.05  # share of a step's rollouts from which failures give a warning
_WARNING_FACTOR = 10  # times as many failures as at the last warning


class FailureWatch(SavedRecord):
    """Count of the training rollouts that have no reward.

    Attributes:
        failed: rollouts without a reward so far.
        rollouts: all training rollouts so far.
        reason: reason of the first failure; empty before.
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
            trajectories: all trajectories of this step.

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
        has_many = bool(reasons) and len(reasons) >= _WARNING_SHARE * len(trajectories)
        is_warning = has_many and self.failed >= _WARNING_FACTOR * self.failed_at_warning
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
"""Steps without a single failure, or with failures only, after which the user is warned."""

CONSTANT_REWARDS = 400
"""Equal rewards in a row after which the user is warned. A policy that solves one question in a
hundred begins with so many failures in 2 % of runs."""

_ROUNDING = 1e-6  # share of the range: rewards are sums in half or single precision


class RewardWatch(SavedRecord):
    """Check of the rewards of every step.

    Attributes:
        failed: share of failures in each step of the stretch, 0 or 1; None outside of a stretch.
        steps: length of the stretch.
        outside: whether a reward was outside of the range.
        constant: the only reward of the last steps; None where there were several.
        num_constant: number of the rewards of these steps.
    """

    failed: int | None = None
    steps: int = 0
    outside: bool = False
    constant: float | None = None
    num_constant: int = 0

    def observe(
        self, config: EngineConfig, step: int, trajectories: Sequence[Trajectory]
    ) -> list[str]:
        """Return warnings for the user after ``step``: once a stretch, and once a run."""
        rewards = [t.reward for t in trajectories if t.reward is not None]
        if not rewards:
            return []
        return [
            *self._outside(config, step, rewards),
            *self._constant(step, rewards),
            *self._stretch(config, step, rewards),
        ]

    def _outside(self, config: EngineConfig, step: int, rewards: Sequence[float]) -> list[str]:
        low, high = config.reward_range
        slack = _ROUNDING * (high - low)
        if self.outside or (min(rewards) >= low - slack and max(rewards) <= high + slack):
            return []
        self.outside = True
        return [
            f"rewards of step {step} go from {min(rewards):g} to {max(rewards):g}, reward_range is "
            f"[{low:g}, {high:g}]: what counts as a failure and how sharply candidates are "
            "distinguished follow from it; set reward_range to the least and the greatest "
            "reward there is"
        ]

    def _constant(self, step: int, rewards: Sequence[float]) -> list[str]:
        only = rewards[0] if len(set(rewards)) == 1 else None
        before = self.num_constant if only is not None and only == self.constant else 0
        self.constant, self.num_constant = only, before + len(rewards)
        if only is None or not before < CONSTANT_REWARDS <= self.num_constant:
            return []
        return [
            f"all of the last {self.num_constant} rewards up to step {step} are {only:g}: neither "
            "the policy nor an instruction can be improved by them; check that the reward function "
            "reads the completion, and that the questions are neither too hard nor too easy"
        ]

    def _stretch(self, config: EngineConfig, step: int, rewards: Sequence[float]) -> list[str]:
        bar = config.failure_threshold
        failures = sum(reward < bar for reward in rewards)
        kind = {0: 0, len(rewards): 1}.get(failures)
        continues = kind is not None and kind == self.failed
        self.steps, self.failed = (self.steps + 1 if continues else 1), kind
        if kind is None or self.steps != STRETCH:
            return []
        finding, effect = (
            ("all trajectories are failures", "instructions can hardly be distinguished")
            if kind
            else ("no trajectory is a failure", "the proposer has nothing new to learn from")
        )
        return [
            f"in each of the last {STRETCH} steps up to step {step}, {finding} (a reward below "
            f"{bar:g}): {effect}; if this is not what the policy is like, check the reward "
            "function, reward_range and failure_below"
        ]


def rewards_of(trajectories: Sequence[Trajectory]) -> Mapping[str, Mapping[str, Sequence[float]]]:
    """Return the rewards of the scored ``trajectories`` by question and candidate."""
    rewards: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for trajectory in trajectories:
        if trajectory.reward is not None:
            assignment = trajectory.assignment
            rewards[assignment.question.id][assignment.candidate.id].append(trajectory.reward)
    return rewards
