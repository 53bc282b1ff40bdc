"""Native tool calls as text: how a conversation of OpenAI's protocol stands in an episode.

An episode is text with a mask. A server that is asked in chat messages sends calls and wants their
results as fields of their own; here they are written in one form, as Qwen's chat template has it,
and read back, so that the agent's loop and whoever reads an episode need not know of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from evoprompt.turns import CLOSE_THOUGHT, OPEN_THOUGHT

CALL, END_CALL = "<tool_call>", "</tool_call>"
RESULT, END_RESULT = "<tool_response>", "</tool_response>"
END = "<|im_end|>"
"""Ends an action."""

_MARKS = (CALL, END_CALL, END, OPEN_THOUGHT, CLOSE_THOUGHT)
_QUOTE = "\u200b"  # no server writes it by itself

Message = Mapping[str, JsonValue]


def written_action(
    content: str, calls: Sequence[tuple[str, JsonValue]] = (), thought: str = ""
) -> str:
    r"""An action as the text of an episode; arguments that are no JSON object stay unreadable.

    Args:
        content: what was said beside the calls; what looks like a call in it is none.
        calls: name and arguments of each, the latter as the server sent them: a text, an object,
            or nothing.
        thought: what was thought before it.

    >>> written_action("Hm.", [("look", '{"at": "left"}')])
    'Hm.\n<tool_call>\n{"name": "look", "arguments": {"at": "left"}}\n</tool_call>'
    """
    parts = [f"{OPEN_THOUGHT}{_quoted(thought)}{CLOSE_THOUGHT}"] if thought else []
    parts += [_quoted(content)] if content else []
    for name, arguments in calls:
        found = _arguments(arguments)
        given: JsonValue = {"name": name, "arguments": found} if found is not None else arguments
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
    thought, closed, after = content.partition(CLOSE_THOUGHT)
    content = after if closed else content
    said: dict[str, JsonValue] = {"role": "assistant", "content": _unquoted(content.strip())}
    if closed:
        said["reasoning_content"] = _unquoted(thought.replace(OPEN_THOUGHT, "", 1))
    if not calls:
        shown = observation.strip()
        heard: dict[str, JsonValue] = {"role": "user", "content": shown}
        return [said, heard] if shown else [said]
    ids = [f"t{turn % 10_000:04d}{number % 10_000:04d}" for number in range(len(calls))]
    said["content"] = said["content"] or None
    said["tool_calls"] = [_call(name, call) for name, call in zip(ids, calls, strict=True)]
    body = observation.removeprefix(f"{END}\n{RESULT}\n").removesuffix(f"\n{END_RESULT}\n")
    results = body.split(f"\n{END_RESULT}\n{RESULT}\n")
    if len(results) != len(calls):
        return None
    messages = [said]
    for name, result in zip(ids, results, strict=True):
        messages.append({"role": "tool", "tool_call_id": name, "content": result})
    return messages


def _call(name: str, written: str) -> JsonValue:
    given = json.loads(written.rsplit(END_CALL, 1)[0])
    arguments = json.dumps(given["arguments"], ensure_ascii=False)
    return {
        "id": name,
        "type": "function",
        "function": {"name": given["name"], "arguments": arguments},
    }


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


def _quoted(text: str) -> str:
    for mark in _MARKS:
        text = text.replace(mark, f"{mark[:-1]}{_QUOTE}{mark[-1]}")
    return text


def _unquoted(text: str) -> str:
    for mark in _MARKS:
        text = text.replace(f"{mark[:-1]}{_QUOTE}{mark[-1]}", mark)
    return text
