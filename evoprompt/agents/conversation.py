"""Native tool calls as text: how a conversation of OpenAI's protocol stands in an episode.

An episode is text with a mask. A server that is asked in chat messages sends calls and wants their
results as fields of their own; here they are written in one form, as Qwen's chat template has it,
and read back, so that the agent's loop and whoever reads an episode need not know of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from evoprompt.turns import CLOSE_THOUGHT, OPEN_THOUGHT

CALL, END_CALL = "<tool_call>", "</tool_call>"
RESULT, END_RESULT = "<tool_response>", "</tool_response>"
END = "<|im_end|>"
"""Ends an action."""

_MARKS = (CALL, END_CALL, END)
UNSEEN = "\u200b"
"""No server writes it by itself."""

_APART = OPEN_THOUGHT + UNSEEN  # before a thought that a server told apart

Message = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class CallMade:
    """A call as a server sent it.

    Attributes:
        name: of the tool.
        arguments: a text, an object, or nothing.
        beside: what else the server wants back with it, such as its id.
    """

    name: str
    arguments: JsonValue
    beside: Message = field(default_factory=dict)


def written_action(
    content: str, calls: Sequence[CallMade] = (), thought: str = "", *, cut: bool = False
) -> str:
    r"""An action as the text of an episode; arguments that are no JSON object stay unreadable.

    Args:
        content: what was said beside the calls; what looks like a call in it is none.
        calls: as the server sent them.
        thought: what was thought before it, where the server told it apart.
        cut: whether nothing was said after the thought.

    >>> written_action("Hm.", [CallMade("look", '{"at": "left"}')])
    'Hm.\n<tool_call>\n{"name": "look", "arguments": {"at": "left"}}\n</tool_call>'
    """
    closing = "" if cut else CLOSE_THOUGHT
    apart = _quoted(thought, (*_MARKS, OPEN_THOUGHT, CLOSE_THOUGHT))
    parts = [f"{_APART}{apart}{closing}"] if thought else []
    parts += [_quoted(content)] if content else []
    for call in calls:
        found = _arguments(call.arguments)
        given: JsonValue = {"name": call.name, "arguments": found, **call.beside}
        given = given if found is not None else call.arguments
        parts.append(f"{CALL}\n{_escaped(json.dumps(given, ensure_ascii=False))}\n{END_CALL}")
    return "\n".join(parts)


def written_results(results: Sequence[str]) -> str:
    """The results of an action's calls as the text of an episode, up to the next action."""
    shown = "\n".join(f"{RESULT}\n{result}\n{END_RESULT}" for result in results)
    return f"{END}\n{shown}\n"


def messages_of(action: str, observation: str, turn: int) -> list[dict[str, JsonValue]] | None:
    """An action and its observation as messages; None if the results cannot be told apart.

    Args:
        action: as :func:`written_action` writes it.
        observation: as :func:`written_results` does, or any other text without calls.
        turn: number of the action, from which its calls get their ids.
    """
    content, *calls = action.split(CALL)
    thought, content = thought_apart(content)
    said: dict[str, JsonValue] = {"role": "assistant", "content": _unquoted(content.strip())}
    if not calls:
        shown = observation.strip()
        heard: dict[str, JsonValue] = {"role": "user", "content": shown}
        return [said, heard] if shown else [said]
    ids = [f"t{turn % 10_000:04d}{number % 10_000:04d}" for number in range(len(calls))]
    said["content"] = said["content"] or None
    if thought:  # some servers want it back beside a call, and refuse it elsewhere
        said["reasoning_content"] = _unquoted(thought)
    made = [_call(name, call) for name, call in zip(ids, calls, strict=True)]
    said["tool_calls"] = [*made]
    body = observation.removeprefix(f"{END}\n{RESULT}\n").removesuffix(f"\n{END_RESULT}\n")
    results = body.split(f"\n{END_RESULT}\n{RESULT}\n")
    if len(results) != len(calls):
        return None
    messages = [said]
    for call, result in zip(made, results, strict=True):
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    return messages


def thought_apart(content: str) -> tuple[str, str]:
    """The thought that a server told apart, empty if it did not, and what was said."""
    if not content.startswith(_APART):
        return "", content
    thought, _, said = content.removeprefix(_APART).partition(CLOSE_THOUGHT)
    return thought, said.lstrip()


def _call(name: str, written: str) -> dict[str, JsonValue]:
    given = json.loads(written.rsplit(END_CALL, 1)[0])
    called = {"name": given.pop("name")}
    called["arguments"] = json.dumps(given.pop("arguments"), ensure_ascii=True)
    return {"id": name, "type": "function", **given, "function": called}


def _arguments(given: JsonValue) -> dict[str, JsonValue] | None:
    """The object that ``given`` is or holds as text; None if it is none, by the letter of JSON."""
    if isinstance(given, dict) or given is None:
        return given or {}
    try:
        found = json.loads(str(given) or "{}", parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _escaped(text: str) -> str:
    """JSON that means the same and holds no mark."""
    for mark in _MARKS:
        text = text.replace(mark, f"\\u003c{mark[1:]}")
    return text


def _quoted(text: str, marks: Sequence[str] = _MARKS) -> str:
    for mark in marks:
        text = text.replace(mark, f"{mark[:-1]}{UNSEEN}{mark[-1]}")
    return text


def _unquoted(text: str) -> str:
    for mark in (*_MARKS, OPEN_THOUGHT, CLOSE_THOUGHT):
        text = text.replace(f"{mark[:-1]}{UNSEEN}{mark[-1]}", mark)
    return text
