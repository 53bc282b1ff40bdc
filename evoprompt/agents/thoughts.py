"""Separation of a policy's thoughts, by the marks of its own chat template."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from evoprompt.agents.episode import Decode
from evoprompt.agents.tokenizer import ChatTokenizer, Tokenizer, rendered
from evoprompt.log.turns import CLOSE_THOUGHT, OPEN_THOUGHT, thought_apart
from evoprompt.support.errors import InputError

_QUESTION, _THOUGHT, _ANSWER = "asked-4b1f", "thought-4b1f", "said-4b1f"
_MARK = re.compile(r"<[^<>]+>|\[[^\[\]\s]+\]|\u25c1[^\u25c1\u25b7\s]+\u25b7")
_CALL = {"type": "function", "id": "call00000", "function": {"name": "f", "arguments": {}}}


@dataclass(frozen=True, slots=True)
class SplitAction:
    """Action of a policy, separated into thought and text.

    Attributes:
        thought: thought of the policy; empty for a policy that does not think.
        remainder: text without the thought.
        cut: whether the action ended within a thought, and so has no further text.
    """

    thought: str
    remainder: str
    cut: bool = False

    @property
    def text(self) -> str:
        """Return thought and text, the thought in the same marks for every model."""
        if not self.thought and not self.cut:
            return self.remainder
        closing = "" if self.cut else CLOSE_THOUGHT
        return f"{OPEN_THOUGHT}{self.thought}{closing}{self.remainder}"


@dataclass(frozen=True, slots=True)
class Marks:
    r"""Marks of a policy around its thoughts.

    Attributes:
        opening: mark before a thought, unless the prompt ends with it.
        closing: mark after a thought.
        alone: whether ``closing`` without ``opening`` marks all text before it as thought.
        heading: mark before the text to the user, if a template has such a mark.

    >>> Marks().part("3 times a.</think>\n\n3")
    SplitAction(thought='3 times a.', remainder='3', cut=False)
    """

    opening: str = OPEN_THOUGHT
    closing: str = CLOSE_THOUGHT
    alone: bool = True
    heading: str = ""

    def is_open_after(self, context: str) -> bool:
        """Return whether the policy continues within a thought after ``context``."""
        return context.rstrip().endswith(self.opening)

    def part(self, action: str, *, is_in_thought: bool = False) -> SplitAction:
        """Separate the thought of an action from its text.

        Args:
            action: the action, including special tokens.
            is_in_thought: whether a thought began before the action.
        """
        thought, spoken, cut = thought_apart(
            action, self.opening, self.closing, is_in_thought=is_in_thought, alone=self.alone
        )
        if cut:
            return SplitAction(thought, "", cut=True)
        return SplitAction(thought, spoken if spoken == action else spoken.strip())

    def answer(self, text: str) -> str:
        """Return the text to the user in ``text``; empty if its heading is missing."""
        if not self.heading:
            return text
        _, headed, answer = text.rpartition(self.heading)
        return answer if headed or _MARK.search(text) is None else ""


def marks_of(tokenizer: Tokenizer) -> Marks:
    """Return the marks in the chat template of ``tokenizer``; the usual ones without a template."""
    if getattr(tokenizer, "chat_template", None) is None:
        return Marks()
    chat: Any = tokenizer
    thinking = {"reasoning_content": _THOUGHT, "thinking": _THOUGHT}
    for fields in ({"content": _ANSWER}, {"content": "", "tool_calls": [_CALL]}):
        marks = _marks(chat, {"role": "assistant", **fields, **thinking})
        if marks is not None:
            return replace(marks, heading=_heading(chat, marks))
    return Marks()


def reader_of(tokenizer: Tokenizer) -> Decode:
    """Return a decoder of actions and observations for users and proposers.

    It leaves out special tokens. If the marks of a thought are special tokens, the thought gets the
    usual marks.
    """

    def plain(ids: list[int]) -> str:
        return str(tokenizer.decode(ids, skip_special_tokens=True))

    def read(ids: list[int]) -> str:
        parted = marks.part(str(tokenizer.decode(ids, skip_special_tokens=False)))
        if not parted.thought and not parted.cut:
            return plain(ids)
        answer = tokenizer.encode(marks.answer(parted.remainder), add_special_tokens=False)
        return replace(parted, remainder=plain(answer)).text

    marks = marks_of(tokenizer)
    opening = tokenizer.encode(marks.opening, add_special_tokens=False)
    decode = plain if marks.opening in plain(opening) else read
    return lambda spans: [decode(list(ids)) for ids in spans]


def _marks(tokenizer: ChatTokenizer, message: dict[str, Any]) -> Marks | None:
    question = {"role": "user", "content": _QUESTION}
    text = _written(tokenizer, [question, message], going_on=False)
    prompt = _written(tokenizer, [question], going_on=True)
    before, thought, after = text.rpartition(_THOUGHT)
    if not thought:
        return None
    new = before[len(prompt) :] if before.startswith(prompt) else ""
    opening = new.strip() or "".join(before.split()[-1:])
    closing = _MARK.match(after.lstrip())
    if closing is None or _MARK.search(opening) is None:
        return None
    usual = _written(tokenizer, [question, _without_thought(message), question], going_on=False)
    marks = Marks(opening, closing.group())
    plain = marks.part(usual).remainder if marks.opening in usual else usual
    several = {"role": "assistant", "content": "", "tool_calls": [_CALL, _CALL]}
    calls = _written(tokenizer, [question, several], going_on=False)
    calls = calls.rpartition(_QUESTION)[2] if marks.opening not in calls else ""
    return replace(marks, alone=marks.closing not in plain + calls)


def _without_thought(message: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": message["content"] or _ANSWER}


def _heading(tokenizer: ChatTokenizer, marks: Marks) -> str:
    """Return the text of the template between the prompt and the text to the user."""
    question = {"role": "user", "content": _QUESTION}
    prompt = _written(tokenizer, [question], going_on=True)
    text = _written(
        tokenizer, [question, {"role": "assistant", "content": _ANSWER}], going_on=False
    ).rpartition(_ANSWER)[0]
    return marks.part(text[len(prompt) :]).remainder.strip() if text.startswith(prompt) else ""


def _written(tokenizer: ChatTokenizer, messages: list[dict[str, Any]], *, going_on: bool) -> str:
    try:
        return rendered(tokenizer, messages, going_on=going_on)
    except InputError:
        return ""
