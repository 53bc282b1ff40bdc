"""The agent of Search-R1 (Jin et al., 2025, arXiv 2503.09516) under a given instruction.

The policy writes a query between search tags whenever it wants, is shown the passages, and goes on
until it answers. It is the very agent that is trained here, prompt, tokens and limits included; the
instruction is what evolves.
"""

from __future__ import annotations

from evoprompt_search_qa.methods.play import Attempt, Steps


def search_r1(attempt: Attempt) -> Steps:
    """Actions and passages in turns until an action asks for no search, or for one too many."""
    attempt.episode = yield from attempt.agent.play(attempt.prompt_ids())
