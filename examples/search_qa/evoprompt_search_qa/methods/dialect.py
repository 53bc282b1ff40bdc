"""How a kind of policy is spoken to: instructions by method, lengths, and how passages look."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dialect:
    """Words for one kind of policy.

    Attributes:
        instructions: by name of the method.
        reader: instruction for the policy when it only digests what a search has found.
        action_tokens: most tokens of one action.
        max_searches: most searches a question.
        query: the words to search for, of a question or a thought.
        show: what is shown after a search of the policy's own.
        given: what is shown when the method has searched for a query, not the policy.
        task_for_reader: the question for the reader, from the question asked, what was thought so
            far and the query.
        digest: what is shown in place of passages, from a query and what the reader made of them.
    """

    instructions: Mapping[str, str]
    reader: str
    action_tokens: int
    max_searches: int
    query: Callable[[str], str]
    show: Callable[[Sequence[str]], str]
    given: Callable[[str, Sequence[str]], str]
    task_for_reader: Callable[[str, str, str], str]
    digest: Callable[[str, str], str]
