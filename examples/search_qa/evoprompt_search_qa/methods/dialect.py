"""How a kind of policy is spoken to: prompts and instructions by method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from evoprompt.agents import ChatTokenizer, TagProtocol
from evoprompt.prompts import Prompt


@dataclass(frozen=True, slots=True)
class Dialect:
    """Words for one kind of policy.

    Attributes:
        instructions: by name of the method.
        reader: instruction for the policy when it only digests what a search has found.
        protocol: of training.
        prompt: the prompt of an instruction, a question and what is given with it, as in training;
            messages where the tokenizer has a chat template.
        query: the words to search for, of a question or a thought.
        given: what is shown when the method has searched for a query, not the policy.
        task_for_reader: the question for the reader, from the question asked, what was thought so
            far and the query.
        digest: what is shown in place of passages, from a query and what the reader made of them.
    """

    instructions: Mapping[str, str]
    reader: str
    protocol: TagProtocol
    prompt: Callable[[ChatTokenizer, str, str, str], Prompt]
    query: Callable[[str], str]
    given: Callable[[str, str], str]
    task_for_reader: Callable[[str, str, str], str]
    digest: Callable[[str, str], str]
