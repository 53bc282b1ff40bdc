"""An episode as a reader needs it: shortened, and without what belongs to the chat template.

Hosts keep turns as the policy's tokenizer gives them back, with or without special tokens. Whoever
shows them to a proposer or a person reads them through :func:`readable`, whichever host it was.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from evoprompt.types import Trajectory, Turn

OPEN_THOUGHT, CLOSE_THOUGHT = "<think>", "</think>"
"""Around a thought in the text of an action, whichever marks the policy uses itself."""


class ReadableTurn(NamedTuple):
    """A turn, taken apart.

    Attributes:
        thought: what a model that thinks said to itself; empty for any other.
        said: what it said beside that.
        seen: what the environment answered.
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
_ROLE = re.compile(  # what is left of a header without its special tokens
    r"\s{0,9}(?:user|tool|ipython|function|environment|observation)[ \t]{0,9}\n"
)
_THINKS = r"(?:<think>\s{0,9}(?:</think>\s{0,9})?)?\Z"
_GOES_ON = re.compile(rf"(?:assistant|model)\s{{0,9}}{_THINKS}")
_THINKS_ON = re.compile(_THINKS)
_TAIL = 80  # characters in which the policy is told to go on
_RESULT = re.compile(r"</?tool_response>[ \t]{0,9}\n?")
_NAME = r"(?:\w+:)?(?:think|thinking|thought)\|?[>\]\u25b7]"
_OTHER_MARK = re.compile(
    rf"\A\s*([<\[\u25c1](?:\|begin_of_|\|start_)?{_NAME})|([<\[\u25c1]/{_NAME})", re.IGNORECASE
)
"""Begins or ends a thought where no template has told of marks, as Kimi's do."""
_BEFORE_THOUGHTS = ("", "\n", ">", "]")  # where a line begins, or a mark of a template has ended


def readable(turn: Turn) -> ReadableTurn:
    r"""What was thought, said and seen in ``turn``.

    A thought ends with ``</think>``; the template may have begun it before the model spoke.

    >>> debris = "\nuser\n<tool_response>\n42\n</tool_response>\nassistant\n<think>\n"
    >>> readable(Turn("20 + 22?</think>\n\nThe sum, please.<|im_end|>", debris))
    ReadableTurn(thought='20 + 22?', said='The sum, please.', seen='42')
    """
    thought, said, _ = thought_apart(_MARK.sub("", _HEADER.sub("", turn.action)))
    return ReadableTurn(thought, said.strip(), _seen(turn.observation))


def thought_apart(
    said: str,
    opening: str = OPEN_THOUGHT,
    closing: str = CLOSE_THOUGHT,
    *,
    opened: bool = False,
    alone: bool = True,
) -> tuple[str, str, bool]:
    """What is thought in an action, what is said beside it, and whether it ends within a thought.

    A mark in quotes is only mentioned, and so is one amid a line that none closes. An action that
    begins with marks of another kind, such as Kimi's, is taken apart by them.

    Args:
        said: the action.
        opening: stands before a thought.
        closing: stands after it.
        opened: whether a thought had begun before the action.
        alone: whether ``closing`` says that all before it was thought, without ``opening``.
    """
    other = None if opened else _OTHER_MARK.search(said)
    if other is not None and other[1]:
        opening, closing, alone = other[1], _closing(other[1]), False
    elif other is not None and alone and (mark := other[2].replace("/", "", 1)) not in said:
        opening, closing = mark, other[2]
    found = re.finditer(rf"([`\"']?)({re.escape(opening)}|{re.escape(closing)})([`\"']?)", said)
    marks = [mark for mark in found if not mark[1] or mark[1] != mark[3]]
    last = max((mark.start() for mark in marks if mark[2] == closing), default=-1)
    thinks = opened or (alone and bool(marks) and marks[0][2] == closing)
    thoughts, spoken, start = [], "", 0
    for mark in marks:
        begins, ends = mark.span(2)
        if thinks and mark[2] == closing:
            thoughts.append(said[start:begins])
        elif not thinks and mark[2] == opening:
            before = said[max(start, begins - _TAIL) : begins].rstrip(" \t")[-1:]
            if begins > last and before not in _BEFORE_THOUGHTS:
                continue
            spoken += said[start:begins]
        else:
            continue
        start, thinks = ends, not thinks
    if thinks:
        thoughts.append(said[start:])
    else:
        spoken += said[start:]
    bare = (thought.strip().removeprefix(opening).strip() for thought in thoughts)
    return "\n".join(filter(None, bare)), spoken, thinks


def _closing(opening: str) -> str:
    for begin, end in (("begin_", "end_"), ("start_", "end_"), ("START_", "END_")):
        if begin in opening:
            return opening.replace(begin, end)
    return f"{opening[0]}/{opening[1:]}"


def _seen(observation: str) -> str:
    bare = _MARK.sub("", _HEADER.sub("\n", observation))
    tail, role = bare[-_TAIL:], _ROLE.match(bare)
    goes_on = _GOES_ON.search(tail)
    if bare != observation:
        goes_on, role = _THINKS_ON.search(tail), None
    elif role is None or goes_on is None:  # one alone may be what a tool said
        return _RESULT.sub("", bare).strip()
    after = len(tail) - goes_on.start() if goes_on else 0
    return _RESULT.sub("", bare[role.end() if role else 0 : len(bare) - after]).strip()


_CHARACTERS = 4  # of English text make about one token
_GAP = " [...] "
_SHORTEST = 24  # characters; a piece clipped further says nothing


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the account. ``rank`` 0 is written first when there is no room for all."""

    rank: int
    label: str
    text: str


def render_episode(trajectory: Trajectory, tokens: int = 800) -> str:
    """An account of ``trajectory`` in at most about ``tokens`` tokens.

    What matters is kept longest: the question and its answers, the feedback, the last action, the
    last observation, then earlier actions, then earlier observations, then thoughts.

    Args:
        trajectory: what happened.
        tokens: budget, at four characters a token.
    """
    pieces = _pieces(trajectory)
    room = tokens * _CHARACTERS
    kept: dict[int, str] = {}
    for index, piece in sorted(enumerate(pieces), key=lambda pair: (pair[1].rank, -pair[0])):
        overhead = len(piece.label) + 3
        share = room - overhead if piece.rank in (0, 1) else (room - overhead) * 2 // 3
        whole = len(piece.text) + overhead <= room
        text = piece.text if whole else clip(piece.text, share)
        if text:
            kept[index] = f"{piece.label}: {text}"
            room -= len(text) + overhead
    return "\n".join(kept[index] for index in sorted(kept))


def clip(text: str, characters: int) -> str:
    """The beginning and the end of ``text`` in at most ``characters``; empty if that is too few.

    >>> clip("the quick brown fox jumps over the lazy dog", 31)
    'the quick br [...] the lazy dog'
    """
    if len(text) <= characters:
        return text
    if characters < _SHORTEST:
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
    for index, (thought, said, seen) in enumerate(map(readable, trajectory.turns)):
        if thought:
            cut_off = index == last_action and not said
            pieces.append(_Piece(1 if cut_off else 5, "Agent, thinking", thought))
        if said and index == last_action:
            pieces.append(_Piece(1, "Agent, at last", said))
        elif said:
            pieces.append(_Piece(3, "Agent", said))
        if seen:
            pieces.append(_Piece(2 if index == last_seen else 4, "Environment", seen))
    if not trajectory.turns:
        pieces.append(_Piece(1, "Agent", "(what it did was not recorded)"))
    if feedback := trajectory.feedback.strip():
        pieces.append(_Piece(1, "Feedback", feedback))
    return pieces
