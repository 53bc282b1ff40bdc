"""Where the instruction goes in a prompt. The same functions serve every adapter.

A *prompt* is either plain text or a list of chat messages (``{"role", "content"}``). A render
function returns a new prompt and never changes the one it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evoprompt.types import Candidate

Message = Mapping[str, Any]
Prompt = str | Sequence[Message]
Render = Callable[[Prompt, Candidate], Prompt]


def system_message(prompt: Prompt, candidate: Candidate) -> Prompt:
    """The prompt with the instruction as its system message; before plain text.

    An existing system message is replaced: the instruction is what is being evolved.

    >>> system_message([{"role": "user", "content": "Why?"}], Candidate("c0", {"i": "Be brief."}))
    [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Why?'}]
    """
    if isinstance(prompt, str):
        return f"{candidate.text}\n\n{prompt}"
    rest = prompt[1:] if prompt and prompt[0].get("role") == "system" else prompt
    return [{"role": "system", "content": candidate.text}, *rest]


def user_prefix(prompt: Prompt, candidate: Candidate) -> Prompt:
    r"""The prompt with the instruction before the first user message.

    For models without a system role. A content of several parts gets a text part in front.

    >>> user_prefix([{"role": "user", "content": "Why?"}], Candidate("c0", {"i": "Be brief."}))
    [{'role': 'user', 'content': 'Be brief.\n\nWhy?'}]
    """
    prefix = f"{candidate.text}\n\n"
    if isinstance(prompt, str):
        return prefix + prompt
    messages = list(prompt)
    for index, message in enumerate(messages):
        if message.get("role") == "user":
            content = message["content"]
            prefixed = (
                prefix + content
                if isinstance(content, str)
                else [{"type": "text", "text": prefix}, *content]
            )
            return [*messages[:index], {**message, "content": prefixed}, *messages[index + 1 :]]
    return [{"role": "user", "content": candidate.text}, *messages]
