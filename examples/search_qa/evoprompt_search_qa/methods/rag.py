"""Retrieval-augmented generation (Lewis et al., 2020, arXiv 2005.11401): search once, then answer.

Departure: retriever and policy are taken as they are and the passages share one prompt, as in the
baselines of Search-R1 (arXiv 2503.09516); the paper trains both and sums over passages.
"""

from __future__ import annotations

from evoprompt_search_qa import protocol
from evoprompt_search_qa.methods.play import Attempt, Steps, look_up, say


def rag(attempt: Attempt) -> Steps:
    """Passages for the question itself, given with it; then one action."""
    query = attempt.dialect.query(attempt.question.text)
    attempt.begin(attempt.dialect.given(query, (yield from look_up(query))))
    yield from say(attempt, attempt.episode, protocol.END_ANSWER)
