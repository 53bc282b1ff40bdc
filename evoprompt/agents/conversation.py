"""Native tool calls as text: the form of a server's answer in an episode.

A chat server sends calls, and requires their results, as separate fields of messages. This module
writes them in a single form, that of Qwen's chat template, so that the agent's loop and readers of
an episode need no such fields. The server gets its own messages back unchanged; see
``evoprompt.agents.endpoint``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress

from pydantic import JsonValue

from evoprompt.log.turns import CLOSE_THOUGHT, OPEN_THOUGHT

CALL, END_CALL = "<tool_call>", "</tool_call>"
RESULT, END_RESULT = "<tool_response>", "</tool_response>"
END = "<|im_end|>"
"""Mark that ends an action."""
UNNAMED = "unnamed"
"""Name of the tool of a call without a name; every server and template requires a name."""

_MARKS = (CALL, END_CALL, END)
_ZERO_WIDTH_SPACE = "\u200b"  # inserted into a text that only looks like a mark


def written_action(
    content: str,
    calls: Sequence[tuple[str, JsonValue]] = (),
    thought: str = "",
    *,
    cut: bool = False,
) -> str:
    r"""Return an action as the text of an episode; arguments that are not JSON stay a text.

    Args:
        content: text in addition to the calls; marks of calls in it do not count.
        calls: names and arguments, the latter a text, an object, or nothing.
        thought: thought before it, if the server separated it.
        cut: whether the action ended within the thought.

    >>> written_action("Hm.", [("look", '{"at": "left"}')])
    'Hm.\n<tool_call>\n{"name": "look", "arguments": {"at": "left"}}\n</tool_call>'
    """
    closing = "" if cut else CLOSE_THOUGHT
    apart = _quoted(thought, (*_MARKS, OPEN_THOUGHT, CLOSE_THOUGHT))
    parts = [f"{OPEN_THOUGHT}{apart}{closing}"] if thought else []
    parts += [_quoted(content)] if content else []
    for name, arguments in calls:
        json_arguments = arguments
        with suppress(ValueError, RecursionError):
            json_arguments = read_arguments(arguments) if isinstance(arguments, str) else arguments
        call = json.dumps({"name": name, "arguments": json_arguments}, ensure_ascii=False)
        parts.append(f"{CALL}\n{_escaped(call)}\n{END_CALL}")
    return "\n".join(parts)


def written_results(results: Sequence[str]) -> str:
    """Return the results of an action's calls as the text of an episode, up to the next action."""
    body = "\n".join(f"{RESULT}\n{result}\n{END_RESULT}" for result in results)
    return f"{END}\n{body}\n"


def read_results(observation: str, calls: int) -> list[str]:
    """Return the results of ``calls`` calls from a text of :func:`written_results`.

    With several calls, there are more results than calls if a result contains such marks itself.
    """
    body = observation.removeprefix(f"{END}\n{RESULT}\n").removesuffix(f"\n{END_RESULT}\n")
    return [body] if calls == 1 else body.split(f"\n{END_RESULT}\n{RESULT}\n")


def read_arguments(text: str) -> JsonValue:
    """Return the arguments in a text of strict JSON.

    Raises:
        ValueError: the text is not JSON.
    """
    arguments: JsonValue = json.loads(text or "{}", parse_constant=_refuse)
    return arguments


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _escaped(text: str) -> str:
    """Return JSON with the same value and without marks."""
    for mark in _MARKS:
        text = text.replace(mark, f"\\u003c{mark[1:]}")
    return text


def _quoted(text: str, marks: Sequence[str] = _MARKS) -> str:
    for mark in marks:
        text = text.replace(mark, f"{mark[:-1]}{_ZERO_WIDTH_SPACE}{mark[-1]}")
    return text
