"""Counts of rollouts by the kind of their failure, for proposers to read beside examples.

The counts cover all rollouts of a candidate, also those of which a host keeps no text. The texts of
rollouts are data of unknown origin: a kind holds no text of an episode, only a masked sentence of
the task's feedback.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeVar

from evoprompt.log.turns import clip, readable
from evoprompt.support.credentials import masked, masked_texts
from evoprompt.support.text import many
from evoprompt.types import Trajectory, Turn

T = TypeVar("T")

NOT_RECORDED: Final = "not recorded"
"""Kind of a failure without text."""
OTHER_KINDS: Final = "other kinds"
"""Kind of all failures beyond the most that a candidate has counts for."""
MAX_KINDS: Final = 24
_MAX_QUESTIONS = 1024  # with a known latest outcome
_MIN_ROLLOUTS = 100  # of a candidate, before its counts begin anew with a generation
_MAX_READ = 2_000  # characters of a text that are read from its beginning, and from its end
_MAX_TURNS_READ = 64  # of an episode, the last ones
_MAX_KIND = 100  # characters of a kind
_MAX_ANSWERS = 8  # of a question that are masked in a feedback
_MAX_SHOWN = 12  # kinds in a table
_MAX_LINES = 4_096  # rollouts in a file
_MAX_LINE_TEXT = 40_000  # characters of all texts in a line of JSON, about
_MAX_SECRET = 8_192  # characters of a secret
_GAP = "..."

_QUOTED = re.compile(r"\"[^\"]{0,200}\"|(?<!\w)'[^']{0,200}'(?!\w)|`[^`]{0,200}`|«[^»]{0,200}»")
_NAME = re.compile(r"\b[A-Z][\w-]{1,60}")
_SENTENCE = re.compile(r"[^\n]*?[.!?](?=\s|$)|[^\n]+")
_GAPS = re.compile(r"\.\.\.(?:[\s,;/]{0,3}(?:(?:and|or) )?\.\.\.)+")
_ERROR_WORDS = ("error", "exception", "traceback")
_TOOL_ERROR = re.compile(
    r"^[ \t]{0,9}(?:error:|\w{0,60}(?:error|exception):|traceback \(most recent|"
    r"\{\s{0,9}\"(?:error|is_error)\"\s{0,9}:\s{0,9}(?!false|null|\"\"))",
    re.IGNORECASE | re.MULTILINE,
)
_CALL_ERROR = re.compile(
    r"do(?:es)? not fit|no tool\b|unknown (?:tool|function)|not (?:valid )?json|json ?decode|"
    r"expecting |malformed|cannot be (?:read|parsed)|unparsable",
    re.IGNORECASE,
)
_CALL_TAG = re.compile(r"<(/?)(tool_call|function_call|function|call|search|answer)\b[^<>]{0,99}>")


def failure_kind(trajectory: Trajectory) -> str:
    """Return the kind of a failure: its first structural fault, otherwise the task's own kind.

    The structural kinds are no answer, a malformed call, an error of a tool, an end at a limit, and
    a repeated call. The task's kind is the first sentence of the feedback without its numbers,
    quotations and names of the question. The time does not grow with the length of a turn.
    """
    turns = [*map(_shortened, trajectory.turns[-_MAX_TURNS_READ:])]
    feedback = trajectory.feedback[:_MAX_READ]
    if not turns and not feedback.strip():
        return NOT_RECORDED
    if turns:
        last = readable(turns[-1])
        if last.thought and not last.said:
            return "cut at the limit while thinking"
        if not last.said and not last.seen:
            return "no answer"
        is_cut = any("trunc" in name and value > 0 for name, value in trajectory.metrics.items())
        errors = [
            seen
            for turn in turns
            if any(map(turn.observation.lower().__contains__, _ERROR_WORDS))
            and _TOOL_ERROR.search(seen := readable(Turn("", turn.observation)).seen)
        ]
        tags = Counter(_CALL_TAG.findall(turns[-1].action))
        is_open = any(count > tags["/", tag] for (slash, tag), count in tags.items() if not slash)
        is_whole = len(trajectory.turns[-1].action) <= 2 * _MAX_READ
        if any(map(_CALL_ERROR.search, errors)) or (is_open and is_whole and not last.seen):
            return "cut at the limit" if is_cut else "malformed call"
        if errors:
            return "error of a tool"
        if is_cut:
            return "cut at the limit"
        calls = Counter(turn.action.strip() for turn in turns if turn.observation)
        if any(count > 1 for action, count in calls.items() if action):
            return "the same call again"
    return _kind_of_feedback(feedback, trajectory) or "wrong answer"


def _kind_of_feedback(feedback: str, trajectory: Trajectory) -> str:
    """Return the first sentence of ``feedback`` without what is particular to the question."""
    text = feedback.strip()
    for answer in trajectory.question.answers[:_MAX_ANSWERS]:
        if answer in text and (len(answer) > 1 or not answer.islower()):
            text = re.sub(rf"(?<!\w){re.escape(answer)}(?!\w)", _GAP, text)
    text = _QUOTED.sub(_GAP, text)
    sentence = _SENTENCE.match(text)
    text = (sentence[0] if sentence else text)[: 4 * _MAX_KIND]
    names = {*_NAME.findall(trajectory.question.text[:_MAX_READ])}
    words = [_mask_word(word, names if index else ()) for index, word in enumerate(text.split())]
    return _mask(_GAPS.sub(_GAP, " ".join(words)))[:_MAX_KIND]  # a cut may split a secret


_mask = lru_cache(1024)(masked)  # kinds repeat themselves


def _mask_word(word: str, names: Collection[str]) -> str:
    """Return a gap for a word with a digit or a name, with the punctuation after it."""
    name = word.rstrip(".,;:!?)")
    is_particular = any(map(str.isdigit, name)) or name.strip("(") in names
    return _GAP + word[len(name) :] if is_particular else word


def _shortened(turn: Turn) -> Turn:
    """Return the beginning and the end of the texts of a turn."""
    action, seen = turn.action, turn.observation
    if len(action) > 2 * _MAX_READ:
        action = f"{action[:_MAX_READ]}\n{action[-_MAX_READ:]}"
    return Turn(action, seen[: 2 * _MAX_READ])


def take_turns(kinds: Sequence[Hashable], items: Sequence[T]) -> list[T]:
    """Return ``items`` so that one of each kind comes before a second one of any.

    Otherwise the order stays.

    >>> take_turns("aabab", [1, 2, 3, 4, 5])
    [1, 3, 2, 5, 4]
    """
    seen: Counter[Hashable] = Counter()
    ranks: list[tuple[int, int]] = []
    for index, kind in enumerate(kinds):
        ranks.append((seen[kind], index))
        seen[kind] += 1
    return [items[index] for _, index in sorted(ranks)]


@dataclass(slots=True)
class RolloutTally:
    """Counts of the rollouts of a candidate; they change while rollouts are observed.

    Attributes:
        rollouts: number of scored rollouts.
        successes: how many of them succeeded.
        kinds: number of failures by kind.
        turns: sum of the turns of successes and of failures, and the number of either, with text.
        tokens: the same of the policy's tokens, where a host counts them.
        gained: questions that failed at last sight, under any candidate, and now succeed.
        lost: questions that succeeded at last sight and now fail.
        tools: number of rollouts with text in which the name of a tool stands in an action.
    """

    rollouts: int = 0
    successes: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    turns: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    tokens: list[float] = field(default_factory=lambda: [0, 0, 0, 0])
    gained: int = 0
    lost: int = 0
    tools: dict[str, int] = field(default_factory=dict)

    def add(self, trajectory: Trajectory, is_success: bool, tools: Collection[str] = ()) -> None:
        """Count a scored rollout."""
        self.rollouts += 1
        self.successes += is_success
        place = 0 if is_success else 2
        if trajectory.turns:
            self.turns[place] += len(trajectory.turns)
            self.turns[place + 1] += 1
            actions = [_shortened(turn).action for turn in trajectory.turns[-_MAX_TURNS_READ:]]
            for tool in tools:
                used = any(tool in action for action in actions)
                self.tools[tool] = self.tools.get(tool, 0) + used
        if (tokens := trajectory.metrics.get("response_tokens")) is not None:
            self.tokens[place] += tokens
            self.tokens[place + 1] += 1
        if not is_success:
            kind = failure_kind(trajectory)
            self.kinds[kind] = self.kinds.get(kind, 0) + 1
            if len(self.kinds) > MAX_KINDS:  # the rarest kind, the oldest of several, has to go
                named_kinds = [name for name in self.kinds if name not in (kind, OTHER_KINDS)]
                count = self.kinds.pop(min(named_kinds, key=self.kinds.__getitem__))
                self.kinds[OTHER_KINDS] = self.kinds.get(OTHER_KINDS, 0) + count


@dataclass(slots=True)
class RolloutTallies:
    """Counts of rollouts by candidate.

    Attributes:
        tallies: the counts by id of the candidate.
        outcomes: whether the latest rollouts of a question succeeded, oldest sight first.
    """

    tallies: dict[str, RolloutTally] = field(default_factory=dict)
    outcomes: dict[str, bool] = field(default_factory=dict)

    def observe(
        self,
        trajectories: Sequence[Trajectory],
        failure_below: float,
        tools: Collection[str] = (),
    ) -> None:
        """Count the scored rollouts of a step; a question succeeds if most of its rollouts do."""
        sights: dict[tuple[str, str], list[bool]] = {}
        for trajectory in trajectories:
            if trajectory.reward is None:
                continue
            is_success = trajectory.reward >= failure_below
            candidate = trajectory.candidate.id
            tally = self.tallies.setdefault(candidate, RolloutTally())
            tally.add(trajectory, is_success, tools)
            sights.setdefault((candidate, trajectory.question.id), []).append(is_success)
        now = {}
        for (candidate, question), successes in sights.items():
            now[question] = is_right = 2 * sum(successes) > len(successes)
            if (before := self.outcomes.get(question, is_right)) != is_right:
                self.tallies[candidate].gained += is_right
                self.tallies[candidate].lost += before
        for question, is_right in now.items():
            self.outcomes.pop(question, None)
            self.outcomes[question] = is_right
        for question in list(self.outcomes)[: max(len(self.outcomes) - _MAX_QUESTIONS, 0)]:
            del self.outcomes[question]

    def keep(self, ids: Collection[str]) -> None:
        """Forget the counts of all candidates but ``ids``."""
        self.tallies = {name: tally for name, tally in self.tallies.items() if name in ids}

    def begin_generation(self) -> None:
        """Begin the counts anew, but for candidates with few rollouts."""
        self.tallies = {
            name: tally for name, tally in self.tallies.items() if tally.rollouts < _MIN_ROLLOUTS
        }


@dataclass(frozen=True, slots=True)
class RolloutCorpus:
    """All rollouts that a request to a proposer is about.

    Attributes:
        tallies: counts by id of the candidate.
        rollouts: the rollouts with text that are in memory.
        failure_below: reward below which a rollout is a failure.
    """

    tallies: Mapping[str, RolloutTally] = field(default_factory=dict)
    rollouts: Sequence[Trajectory] = ()
    failure_below: float = 0.5

    @classmethod
    def of(
        cls,
        trajectories: Sequence[Trajectory],
        failure_below: float,
        tools: Collection[str] = (),
    ) -> RolloutCorpus:
        """Return the corpus of ``trajectories``, oldest first, each a sight of its question."""
        tallies = RolloutTallies()
        for trajectory in trajectories:
            tallies.observe([trajectory], failure_below, tools)
        return cls(tallies.tallies, trajectories, failure_below)

    def describe(self, candidate: str, predecessor: str = "") -> str:
        """Return the counts of a candidate beside those of its predecessor, as a short text.

        Empty without a count.
        """
        tally = self.tallies.get(candidate)
        if tally is None:
            return ""
        before = self.tallies.get(predecessor)
        lines = [f"Under the instruction: {_summary(tally)}"]
        if before is not None:
            lines.append(f"Under the one before it: {_summary(before)}")
        earlier = before.kinds if before is not None else {}
        counts = Counter(tally.kinds)
        ranked = sorted({*counts, *earlier}, key=lambda k: (-counts[k], -earlier.get(k, 0), k))
        for kind in ranked[:_MAX_SHOWN]:
            line = f'- "{kind}": {_share(counts[kind], tally)}'
            if before is not None:
                line += f"; before {_share(earlier.get(kind, 0), before)}"
            lines.append(line)
        if further := [kind for kind in ranked[_MAX_SHOWN:] if counts[kind]]:
            count = sum(counts[kind] for kind in further)
            lines.append(f"- {len(further)} further kinds: {_share(count, tally)}")
        if tally.gained or tally.lost:
            lines.append(
                f"Since their last sight {many(tally.gained, 'question')} turned right, "
                f"{tally.lost:,} wrong."
            )
        for unit, (right, num_right, wrong, num_wrong) in (
            ("turns", tally.turns),
            ("tokens", tally.tokens),
        ):
            if num_right and num_wrong and right / num_right != wrong / num_wrong:
                lines.append(
                    f"Mean {unit}: successes {right / num_right:.1f}, failures "
                    f"{wrong / num_wrong:.1f}."
                )
        if unused := [tool for tool, count in tally.tools.items() if not count]:
            lines.append(f"Tools that were never called: {', '.join(unused)}.")
        return masked("\n".join(lines))

    def json_lines(self) -> Iterator[str]:
        """Return each of the latest rollouts as an object of JSON in a line, with masked texts."""
        for trajectory in self.rollouts[-_MAX_LINES:]:
            question, reward = trajectory.question, trajectory.reward
            is_failure = reward is not None and reward < self.failure_below
            line = {
                "candidate": trajectory.candidate.id,
                "instruction": trajectory.candidate.text,
                "question": question.text,
                "answers": list(question.answers),
                "reward": reward,
                "kind": failure_kind(trajectory) if is_failure else "",
                "feedback": trajectory.feedback,
                "turns": [
                    {"action": turn.action, "observation": turn.observation}
                    for turn in trajectory.turns[-_MAX_TURNS_READ:]
                ],
                "metrics": dict(trajectory.metrics),
            }
            limit = _MAX_LINE_TEXT // (2 * len(trajectory.turns[-_MAX_TURNS_READ:]) + 4)
            # The first cut may split a secret; the second one drops what lies beside it.
            whole = masked_texts(_clipped(line, limit + 2 * _MAX_SECRET))
            yield json.dumps(_clipped(whole, limit), ensure_ascii=False)


def _clipped(value: Any, limit: int) -> Any:
    """Return a value of JSON with texts of at most ``limit`` characters."""
    if isinstance(value, str):
        return clip(value, limit)
    if isinstance(value, dict):
        return {name: _clipped(item, limit) for name, item in value.items()}
    return [_clipped(item, limit) for item in value] if isinstance(value, list) else value


def _summary(tally: RolloutTally) -> str:
    failed = tally.rollouts - tally.successes
    share = f" ({failed / tally.rollouts:.0%})" if tally.rollouts else ""
    return f"{many(tally.rollouts, 'rollout')}, {failed:,} failed{share}"


def _share(count: int, tally: RolloutTally) -> str:
    failed = tally.rollouts - tally.successes
    return f"{count:,} ({count / failed:.0%})" if count and failed else "0"
