"""Shortens a trajectory to what a reader needs to see why it failed."""

from __future__ import annotations

from dataclasses import dataclass

from evoprompt.turns import readable
from evoprompt.types import Trajectory

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
