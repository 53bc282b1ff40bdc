"""Direct answers and chain of thought: the policy alone, without a tool.

Chain of thought is Wei et al., 2022 (arXiv 2201.11903), without examples: the instruction asks for
the thinking (as Kojima et al., 2022, arXiv 2205.11916), so that any policy can be asked. The two
methods differ by the instruction alone.
"""

from __future__ import annotations

from evoprompt_search_qa import protocol
from evoprompt_search_qa.methods.play import Attempt, Steps, say


def closed_book(attempt: Attempt) -> Steps:
    """One action, whatever it holds; a query in it is not answered."""
    attempt.begin()
    yield from say(attempt, attempt.episode, protocol.END_ANSWER)
