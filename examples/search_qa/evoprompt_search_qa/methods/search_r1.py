"""The agent of Search-R1 (Jin et al., 2025, arXiv 2503.09516) under a given instruction.

The policy writes a query between search tags whenever it wants, is shown the passages, and goes on
until it answers. This is how policies are trained here; the instruction is what evolves.
"""

from __future__ import annotations

from evoprompt_search_qa.methods.play import Attempt, Play, ask_agent, look_up, show


def search_r1(attempt: Attempt) -> Play:
    """Actions and passages in turns until an action asks for no search, or for one too many."""
    while (query := (yield from ask_agent(attempt))) is not None:
        passages = yield from look_up(attempt, query)
        show(attempt, attempt.dialect.show(passages))
