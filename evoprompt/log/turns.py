"""Readable form of an episode: shortened, and without the marks of the chat template.

Hosts keep turns as the policy's tokenizer decodes them, with or without special tokens. Code that
shows them to a proposer or a user reads them through :func:`readable`, for any host.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from evoprompt.types import Trajectory, Turn

OPEN_THOUGHT, CLOSE_THOUGHT = "<think>", "</think>"
"""Marks around a thought in the text of an action, for any marks that the policy uses."""


class ReadableTurn(NamedTuple):
    """Turn, separated into thought, action and observation.

    Attributes:
        thought: thought of a reasoning model; empty for any other model.
        said: action without the thought.
        seen: observation of the environment.
    """

    thought: str
    said: str
    seen: str


_HEADER = re.compile(  # <|im_start|>user, <|start_header_id|>tool<|end_header_id|>, <start_of_turn>
    r"(?:<\|(?:im_start|start_header_id|start_of_role|start)\|>|<start_of_turn>)"
    r"\s*\w{0,20}\s*(?:<\|(?:end_header_id|end_of_role|im_sep)\|>)?\n*"
)
_MARK = re.compile(
    r"<\|(?:im_end|im_sep|end|endoftext|end_of_text|begin_of_text|eot_id|eom_id|system|user|"
    r"assistant|observation|tool)\|>|<end_of_turn>|<\uff5c[^\uff5c<>\n]{1,40}\uff5c>|</s>\s*\Z"
)
_ROLE = re.compile(  # remainder of a header without its special tokens
    r"\s{0,9}(?:user|tool|ipython|function|environment|observation)[ \t]{0,9}\n"
)
_THINKS = r"(?:<think>\s{0,9}(?:</think>\s{0,9})?)?\Z"
_CONTINUATION = re.compile(rf"(?:assistant|model)\s{{0,9}}{_THINKS}")
_THOUGHT_START = re.compile(_THINKS)
_TAIL = 80  # characters that prompt the policy to continue
_RESULT = re.compile(r"</?tool_response>[ \t]{0,9}\n?")
_NAME = r"(?:\w+:)?(?:think|thinking|thought)\|?[>\]\u25b7]"
_OTHER_MARK = re.compile(
    rf"\A\s*([<\[\u25c1](?:\|begin_of_|\|start_)?{_NAME})|([<\[\u25c1]/{_NAME})", re.IGNORECASE
)
"""Begins or ends a thought if no template names the marks, such as Kimi's."""
_BEFORE_THOUGHTS = ("", "\n", ">", "]")  # before a new line, or after a mark of a template


def readable(turn: Turn) -> ReadableTurn:
    r"""Return the thought, the action and the observation of ``turn``.

    A thought ends with ``</think>``; the template may have begun it before the model's text.

    >>> debris = "\nuser\n<tool_response>\n42\n</tool_response>\nassistant\n<think>\n"
    >>> readable(Turn("20 + 22?</think>\n\nThe sum, please.<|im_end|>", debris))
    ReadableTurn(thought='20 + 22?', said='The sum, please.', seen='42')
    """
    thought, action, _ = thought_apart(_MARK.sub("", _HEADER.sub("", turn.action)))
    return ReadableTurn(thought, action.strip(), _clean_observation(turn.observation))


def thought_apart(
    action: str,
    opening: str = OPEN_THOUGHT,
    closing: str = CLOSE_THOUGHT,
    *,
    is_in_thought: bool = False,
    alone: bool = True,
) -> tuple[str, str, bool]:
    """Separate thoughts from an action: return thoughts, action, and whether a thought is open.

    A mark in quotes is only mentioned, and so is a mark within a line that has no closing mark. For
    an action that begins with marks of another kind, such as Kimi's, those marks are used.

    Args:
        action: the action.
        opening: mark before a thought.
        closing: mark after a thought.
        is_in_thought: whether a thought began before the action.
        alone: whether ``closing`` without ``opening`` marks all text before it as thought.
    """
    other = None if is_in_thought else _OTHER_MARK.search(action)
    if other is not None and other[1]:
        opening, closing, alone = other[1], _closing(other[1]), False
    elif other is not None and alone and (mark := other[2].replace("/", "", 1)) not in action:
        opening, closing = mark, other[2]
    matches = re.finditer(rf"([`\"']?)({re.escape(opening)}|{re.escape(closing)})([`\"']?)", action)
    marks = [mark for mark in matches if not mark[1] or mark[1] != mark[3]]
    last = max((mark.start() for mark in marks if mark[2] == closing), default=-1)
    thinks = is_in_thought or (alone and bool(marks) and marks[0][2] == closing)
    thoughts, spoken, start = [], "", 0
    for mark in marks:
        begin, end = mark.span(2)
        if thinks and mark[2] == closing:
            thoughts.append(action[start:begin])
        elif not thinks and mark[2] == opening:
            before = action[max(start, begin - _TAIL) : begin].rstrip(" \t")[-1:]
            if begin > last and before not in _BEFORE_THOUGHTS:
                continue
            spoken += action[start:begin]
        else:
            continue
        start, thinks = end, not thinks
    if thinks:
        thoughts.append(action[start:])
    else:
        spoken += action[start:]
    bare = (thought.strip().removeprefix(opening).strip() for thought in thoughts)
    return "\n".join(filter(None, bare)), spoken, thinks


def _closing(opening: str) -> str:
    for begin, end in (("begin_", "end_"), ("start_", "end_"), ("START_", "END_")):
        if begin in opening:
            return opening.replace(begin, end)
    return f"{opening[0]}/{opening[1:]}"


def _clean_observation(observation: str) -> str:
    bare = _MARK.sub("", _HEADER.sub("\n", observation))
    tail, role = bare[-_TAIL:], _ROLE.match(bare)
    goes_on = _CONTINUATION.search(tail)
    if bare != observation:
        goes_on, role = _THOUGHT_START.search(tail), None
    elif role is None or goes_on is None:  # a single mark may come from a tool's text
        return _RESULT.sub("", bare).strip()
    after = len(tail) - goes_on.start() if goes_on else 0
    return _RESULT.sub("", bare[role.end() if role else 0 : len(bare) - after]).strip()


_CHARACTERS = 4  # characters of English text per token, about
_GAP = " [...] "
_MIN_PIECE = 24  # characters; a piece that is clipped further is useless


@dataclass(frozen=True, slots=True)
class _Piece:
    """Part of the account. Parts of ``rank`` 0 are written first if there is no room for all."""

    rank: int
    label: str
    text: str


def render_episode(trajectory: Trajectory, tokens: int = 800) -> str:
    """Render ``trajectory`` as an account of at most about ``tokens`` tokens.

    The most important parts are kept longest: the question and its answers, the feedback, the last
    action, the last observation, then earlier actions, then earlier observations, then thoughts.

    Args:
        trajectory: trajectory of the episode.
        tokens: budget, with four characters per token.
    """
    pieces = _pieces(trajectory)
    room = tokens * _CHARACTERS
    lines: dict[int, str] = {}
    for index, piece in sorted(enumerate(pieces), key=lambda pair: (pair[1].rank, -pair[0])):
        overhead = len(piece.label) + 3
        share = room - overhead if piece.rank in (0, 1) else (room - overhead) * 2 // 3
        whole = len(piece.text) + overhead <= room
        text = piece.text if whole else clip(piece.text, share)
        if text:
            lines[index] = f"{piece.label}: {text}"
            room -= len(text) + overhead
    return "\n".join(lines[index] for index in sorted(lines))


def clip(text: str, characters: int) -> str:
    """Return the beginning and the end of ``text``, or an empty text if too few characters fit.

    The result has at most ``characters`` characters.

    >>> clip("the quick brown fox jumps over the lazy dog", 31)
    'the quick br [...] the lazy dog'
    """
    if len(text) <= characters:
        return text
    if characters < _MIN_PIECE:
        return ""
    keep = characters - len(_GAP)
    return text[: keep // 2].rstrip() + _GAP + text[len(text) - (keep - keep // 2) :].lstrip()


def _pieces(trajectory: Trajectory) -> list[_Piece]:
    question = trajectory.question
    pieces = [_Piece(0, "Question", question.text)]
    if question.answers:
        pieces.append(_Piece(0, "Correct answer", " or ".join(question.answers)))
    last_action = max((i for i, turn in enumerate(trajectory.turns) if turn.action), default=-1)
    last_seen = max((i for i, turn in enumerate(trajectory.turns) if turn.observation), default=-1)
    for index, (thought, action, seen) in enumerate(map(readable, trajectory.turns)):
        if thought:
            cut_off = index == last_action and not action
            pieces.append(_Piece(1 if cut_off else 5, "Agent, thinking", thought))
        if action and index == last_action:
            pieces.append(_Piece(1, "Agent, at last", action))
        elif action:
            pieces.append(_Piece(3, "Agent", action))
        if seen:
            pieces.append(_Piece(2 if index == last_seen else 4, "Environment", seen))
    if not trajectory.turns:
        pieces.append(_Piece(1, "Agent", "(what it did was not recorded)"))
    if feedback := trajectory.feedback.strip():
        pieces.append(_Piece(1, "Feedback", feedback))
    return pieces
