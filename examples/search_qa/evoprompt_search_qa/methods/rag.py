"""Retrieval-augmented generation (Lewis et al., 2020, arXiv 2005.11401): search once, then answer.

Departure: retriever and policy are taken as they are and the passages share one prompt, as in the
baselines of Search-R1 (arXiv 2503.09516); the paper trains both and sums over passages.
"""

from __future__ import annotations

from evoprompt.types import Turn
from evoprompt_search_qa import protocol
from evoprompt_search_qa.methods.play import Attempt, Play, look_up, say


def rag(attempt: Attempt) -> Play:
    """Passages for the question itself, given with it; then one action."""
    query = attempt.dialect.query(attempt.question.text)
    passages = yield from look_up(attempt, query)
    attempt.turns.append(Turn("", attempt.dialect.given(query, passages)))
    action = yield from say(attempt.dialogue, protocol.END_ANSWER)
    attempt.turns.append(Turn(action))
