"""Where the instruction goes in a prompt. The same functions serve every adapter.

A *prompt* is either plain text or a list of chat messages (``{"role", "content"}``). A render
function returns a new prompt and never changes the one it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from evoprompt.types import Candidate

Message = Mapping[str, Any]
Prompt = str | Sequence[Message]
Render = Callable[[Prompt, Candidate], Prompt]
Placement = Literal["append", "replace", "user"]
"""Name of a place for the instruction: after the dataset's own system message, instead of it, or
before the first user message."""


def system_message(prompt: Prompt, candidate: Candidate) -> Prompt:
    r"""The prompt with the instruction in its system message; before plain text.

    A system message that the dataset has stays, and the instruction follows it.

    >>> system_message([{"role": "system", "content": "Hi."}], Candidate("c0", {"i": "Be brief."}))
    [{'role': 'system', 'content': 'Hi.\n\nBe brief.'}]
    """
    if isinstance(prompt, str):
        return f"{candidate.text}\n\n{prompt}"
    if not _has_system(prompt):
        return [{"role": "system", "content": candidate.text}, *prompt]
    own = prompt[0]["content"]
    joined = (
        f"{own}\n\n{candidate.text}"
        if isinstance(own, str)
        else [*own, {"type": "text", "text": f"\n\n{candidate.text}"}]
    )
    return [{**prompt[0], "content": joined}, *prompt[1:]]


def replace_system_message(prompt: Prompt, candidate: Candidate) -> Prompt:
    """The prompt with the instruction as its system message instead of its own; before plain text.

    For a dataset whose system message is the instruction that is to be evolved.

    >>> own = {"role": "system", "content": "Be kind."}
    >>> replace_system_message([own], Candidate("c0", {"i": "Be brief."}))
    [{'role': 'system', 'content': 'Be brief.'}]
    """
    if not isinstance(prompt, str) and _has_system(prompt):
        prompt = prompt[1:]
    return system_message(prompt, candidate)


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


PLACEMENTS: Mapping[Placement, Render] = {
    "append": system_message,
    "replace": replace_system_message,
    "user": user_prefix,
}
"""The render function of each placement."""


def _has_system(messages: Sequence[Message]) -> bool:
    return bool(messages) and messages[0].get("role") == "system"
