"""Native tool calls as text: how an answer of a server stands in an episode.

A server that is asked in chat messages sends calls and wants their results as fields of their own.
Here they are written in one form, as Qwen's chat template has it, so that the agent's loop and
whoever reads an episode need not know of it. What goes back to the server is its own message, as it
came; see ``evoprompt.agents.endpoint``.
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
"""Ends an action."""
UNNAMED = "unnamed"
"""Stands for the name of a tool where a call has none; no server and no template takes none."""

_MARKS = (CALL, END_CALL, END)
_UNSEEN = "\u200b"  # within what looks like a mark and is none


def written_action(
    content: str,
    calls: Sequence[tuple[str, JsonValue]] = (),
    thought: str = "",
    *,
    cut: bool = False,
) -> str:
    r"""An action as the text of an episode; arguments that are no JSON stay a text.

    Args:
        content: what was said beside the calls; what looks like a call in it is none.
        calls: names and arguments, the latter a text, an object, or nothing.
        thought: what was thought before it, where the server told it apart.
        cut: whether nothing was said after the thought.

    >>> written_action("Hm.", [("look", '{"at": "left"}')])
    'Hm.\n<tool_call>\n{"name": "look", "arguments": {"at": "left"}}\n</tool_call>'
    """
    closing = "" if cut else CLOSE_THOUGHT
    apart = _quoted(thought, (*_MARKS, OPEN_THOUGHT, CLOSE_THOUGHT))
    parts = [f"{OPEN_THOUGHT}{apart}{closing}"] if thought else []
    parts += [_quoted(content)] if content else []
    for name, arguments in calls:
        given = arguments
        with suppress(ValueError, RecursionError):
            given = read_arguments(arguments) if isinstance(arguments, str) else arguments
        call = json.dumps({"name": name, "arguments": given}, ensure_ascii=False)
        parts.append(f"{CALL}\n{_escaped(call)}\n{END_CALL}")
    return "\n".join(parts)


def written_results(results: Sequence[str]) -> str:
    """The results of an action's calls as the text of an episode, up to the next action."""
    shown = "\n".join(f"{RESULT}\n{result}\n{END_RESULT}" for result in results)
    return f"{END}\n{shown}\n"


def read_results(observation: str, calls: int) -> list[str]:
    """The results of ``calls`` in what :func:`written_results` wrote.

    Of several calls there are more results than calls where one of them holds such marks itself.
    """
    body = observation.removeprefix(f"{END}\n{RESULT}\n").removesuffix(f"\n{END_RESULT}\n")
    return [body] if calls == 1 else body.split(f"\n{END_RESULT}\n{RESULT}\n")


def read_arguments(written: str) -> JsonValue:
    """Arguments that are written as a text, by the letter of JSON.

    Raises:
        ValueError: it is no JSON.
    """
    found: JsonValue = json.loads(written or "{}", parse_constant=_refuse)
    return found


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _escaped(text: str) -> str:
    """JSON that means the same and holds no mark."""
    for mark in _MARKS:
        text = text.replace(mark, f"\\u003c{mark[1:]}")
    return text


def _quoted(text: str, marks: Sequence[str] = _MARKS) -> str:
    for mark in marks:
        text = text.replace(mark, f"{mark[:-1]}{_UNSEEN}{mark[-1]}")
    return text
