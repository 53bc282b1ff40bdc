"""Kinds of failures, and the rollouts that a request to a proposer is about, as lines of JSON.

The texts of rollouts are data of unknown origin: a kind holds no text of an episode, only a masked
sentence of the task's feedback.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evoprompt.log.turns import clip, readable
from evoprompt.support.credentials import masked, masked_texts
from evoprompt.types import Trajectory, Turn

_MAX_READ = 2_000  # characters of a text that are read from its beginning, and from its end
_MAX_TURNS_READ = 64  # of an episode, the last ones
_MAX_KIND = 100  # characters of a kind
_MAX_ANSWERS = 8  # of a question that are masked in a feedback
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
        return "not recorded"
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
    return masked(_GAPS.sub(_GAP, " ".join(words)))[:_MAX_KIND]  # a cut may split a secret


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


@dataclass(frozen=True, slots=True)
class RolloutCorpus:
    """All rollouts that a request to a proposer is about.

    Attributes:
        rollouts: the rollouts with text that are in memory.
        failure_below: reward below which a rollout is a failure.
    """

    rollouts: Sequence[Trajectory] = ()
    failure_below: float = 0.5

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
