"""Where the instruction goes in a prompt. The same functions serve every adapter.

A *prompt* is either plain text or a list of chat messages (``{"role", "content"}``). A render
function returns a new prompt and never changes the one it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from evoprompt.hosting.rows import text_of
from evoprompt.log.turns import clip
from evoprompt.support.errors import InputError
from evoprompt.types import INSTRUCTION, PLACE, Candidate

Message = Mapping[str, Any]
Prompt = str | Sequence[Message]
Render = Callable[[Prompt, Candidate], Prompt]
Placement = Literal["append", "replace", "user"]
"""Name of a place for the instruction: after the dataset's own system message, instead of it, or
before the first user message."""

SystemRole = Literal["system", "developer"]
SYSTEM_ROLES: tuple[SystemRole, ...] = ("system", "developer")
"""Roles of a message that instructs the policy; OpenAI's newer models call it a developer's."""

_AROUND = 600  # characters that are shown before and after an instruction

TOOL_DESCRIPTIONS = "tool_descriptions"
"""Key of a message that holds descriptions of tools, by their names; no part of the chat."""


def system_message(prompt: Prompt, candidate: Candidate) -> Prompt:
    r"""Return the prompt with the instruction in its system message; before plain text.

    A system or developer message that the dataset has stays, and the instruction follows it. Where
    one stands later in the conversation, the instruction is a message of its own at the beginning.

    >>> system_message([{"role": "system", "content": "Hi."}], Candidate("c0", {"i": "Be brief."}))
    [{'role': 'system', 'content': 'Hi.\n\nBe brief.'}]
    """
    if isinstance(prompt, str):
        return f"{candidate.instruction}\n\n{prompt}"
    if not prompt or prompt[0].get("role") not in SYSTEM_ROLES:
        return [{"role": "system", "content": candidate.instruction}, *prompt]
    content = _content_of(prompt[0])
    joined: object = candidate.instruction
    if content is not None:
        joined = (
            f"{content}\n\n{candidate.instruction}"
            if isinstance(content, str)
            else [*content, {"type": "text", "text": f"\n\n{candidate.instruction}"}]
        )
    return [{**prompt[0], "content": joined}, *prompt[1:]]


def replace_system_message(prompt: Prompt, candidate: Candidate) -> Prompt:
    """Return the prompt with the instruction in place of its system message; before plain text.

    For a dataset with the instruction to evolve in its system or developer message. All those
    before the first turn of the policy are replaced, wherever they stand; without any there,
    the first one after it.

    >>> own = {"role": "developer", "content": "Be kind."}
    >>> replace_system_message([own], Candidate("c0", {"i": "Be brief."}))
    [{'role': 'developer', 'content': 'Be brief.'}]
    """
    if isinstance(prompt, str):
        return system_message(prompt, candidate)
    system_indices = _system_places(prompt)
    role = prompt[system_indices[0]]["role"] if system_indices else "system"
    other_messages = [
        message for index, message in enumerate(prompt) if index not in system_indices
    ]
    return [{"role": role, "content": candidate.instruction}, *other_messages]


def user_prefix(prompt: Prompt, candidate: Candidate) -> Prompt:
    r"""Return the prompt with the instruction before the first user message.

    For models without a system role. A content of several parts gets a text part in front.

    >>> user_prefix([{"role": "user", "content": "Why?"}], Candidate("c0", {"i": "Be brief."}))
    [{'role': 'user', 'content': 'Be brief.\n\nWhy?'}]
    """
    prefix = f"{candidate.instruction}\n\n"
    if isinstance(prompt, str):
        return prefix + prompt
    messages = list(prompt)
    for index, message in enumerate(messages):
        if message.get("role") == "user":
            content = _content_of(message)
            prefixed: object = candidate.instruction
            if content is not None:
                prefixed = (
                    prefix + content
                    if isinstance(content, str)
                    else [{"type": "text", "text": prefix}, *content]
                )
            return [*messages[:index], {**message, "content": prefixed}, *messages[index + 1 :]]
    return [{"role": "user", "content": candidate.instruction}, *messages]


PLACEMENTS: Mapping[Placement, Render] = {
    "append": system_message,
    "replace": replace_system_message,
    "user": user_prefix,
}
"""The render function of each placement."""


class ShowsTools:
    """Render function that also puts the candidate's descriptions of tools into prompts.

    They travel in the first message, as ``"tool_descriptions"``; ``evoprompt.agents.encode`` puts
    them into the schemas that the chat template shows.

    Args:
        render: places the instruction.
    """

    def __init__(self, render: Render) -> None:
        self.render = render

    def __call__(self, prompt: Prompt, candidate: Candidate) -> Prompt:
        """Return the prompt with instruction and descriptions.

        Raises:
            InputError: there are descriptions, and the prompt is plain text.
        """
        rendered = self.render(prompt, candidate)
        descriptions = candidate.tool_descriptions
        if not descriptions:
            return rendered
        if isinstance(rendered, str):
            raise InputError(
                f"descriptions of the tools {', '.join(descriptions)} evolve, but the prompt is "
                "plain text, in which no tool is described; required: a model with a chat template"
            )
        return [{**rendered[0], TOOL_DESCRIPTIONS: descriptions}, *rendered[1:]]


def marked_prompt(prompt: Prompt, render: Render) -> str:
    r"""``prompt`` as text for a writer, with :data:`PLACE` where ``render`` puts an instruction.

    The texts before and after the place are shortened.

    >>> marked_prompt([{"role": "user", "content": "Why?"}], system_message)
    'system: [here stands the instruction]\n\nuser: Why?'
    """
    rendered = render(prompt, Candidate("", {INSTRUCTION: PLACE}))
    if isinstance(rendered, str):
        return _shortened(rendered)
    return "\n\n".join(
        f"{message.get('role', '')}: {_shortened(text_of(message.get('content')))}"
        for message in rendered
    )


def _shortened(text: str) -> str:
    before, marker, after = text.partition(PLACE)
    return clip(before, _AROUND) + marker + clip(after, _AROUND)


def without_tool_descriptions(
    prompt: Sequence[Message],
) -> tuple[list[Message], Mapping[str, str]]:
    """Return the messages for a chat template, and the descriptions that came with them."""
    messages: list[Message] = [
        {name: value for name, value in message.items() if name != TOOL_DESCRIPTIONS}
        for message in prompt
    ]
    descriptions: Mapping[str, str] = prompt[0].get(TOOL_DESCRIPTIONS, {}) if prompt else {}
    return messages, descriptions


def _content_of(message: Message) -> str | Iterable[object] | None:
    """Return the content of a message; None where it has none.

    Raises:
        InputError: it is neither a text nor a list of parts.
    """
    content = message.get("content")
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, Iterable) and not isinstance(content, Mapping | bytes):
        return content
    raise InputError(
        f"the content of the {message.get('role')} message is {content!r:.100}; required: a text, "
        "or a list of parts"
    )


def _system_places(messages: Sequence[Message]) -> list[int]:
    """Return the places of the dataset's own system and developer messages."""
    indices = [n for n, message in enumerate(messages) if message.get("role") in SYSTEM_ROLES]
    turns = (n for n, message in enumerate(messages) if message.get("role") == "assistant")
    first = next(turns, len(messages))
    return [index for index in indices if index < first] or indices[:1]
