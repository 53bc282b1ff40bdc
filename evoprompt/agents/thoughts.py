"""What a policy thinks before it speaks: told apart by the marks of its own chat template."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from evoprompt.agents.episode import Decode
from evoprompt.agents.tokenizer import ChatTokenizer, Tokenizer, rendered
from evoprompt.log.turns import CLOSE_THOUGHT, OPEN_THOUGHT, thought_apart
from evoprompt.support.errors import InputError

_ASKED, _THOUGHT, _SAID = "asked-4b1f", "thought-4b1f", "said-4b1f"
_MARK = re.compile(r"<[^<>]+>|\[[^\[\]\s]+\]|\u25c1[^\u25c1\u25b7\s]+\u25b7")
_CALL = {"type": "function", "id": "call00000", "function": {"name": "f", "arguments": {}}}


@dataclass(frozen=True, slots=True)
class Said:
    """An action, taken apart.

    Attributes:
        thought: what the policy said to itself; empty for any that does not think.
        rest: what it said beside that.
        cut: whether it ended within a thought, so that it said nothing.
    """

    thought: str
    rest: str
    cut: bool = False

    @property
    def text(self) -> str:
        """Thought and rest, the thought marked in one way whichever the model."""
        if not self.thought and not self.cut:
            return self.rest
        closing = "" if self.cut else CLOSE_THOUGHT
        return f"{OPEN_THOUGHT}{self.thought}{closing}{self.rest}"


@dataclass(frozen=True, slots=True)
class Marks:
    r"""How a policy marks its thoughts.

    Attributes:
        opening: stands before a thought, if the prompt does not end with it.
        closing: stands after it.
        alone: whether ``closing`` says that all before it was thought, without ``opening``.
        heading: stands before what is said to the user, where a template has such a mark.

    >>> Marks().part("3 times a.</think>\n\n3")
    Said(thought='3 times a.', rest='3', cut=False)
    """

    opening: str = OPEN_THOUGHT
    closing: str = CLOSE_THOUGHT
    alone: bool = True
    heading: str = ""

    def opened_by(self, context: str) -> bool:
        """Whether the policy goes on within a thought after ``context``."""
        return context.rstrip().endswith(self.opening)

    def part(self, said: str, *, opened: bool = False) -> Said:
        """Thought and rest of an action.

        Args:
            said: the action, special tokens included.
            opened: whether a thought had begun before it.
        """
        thought, spoken, cut = thought_apart(
            said, self.opening, self.closing, opened=opened, alone=self.alone
        )
        if cut:
            return Said(thought, "", cut=True)
        return Said(thought, spoken if spoken == said else spoken.strip())

    def answer(self, rest: str) -> str:
        """What of ``rest`` is said to the user; empty where its heading never came."""
        if not self.heading:
            return rest
        _, headed, answer = rest.rpartition(self.heading)
        return answer if headed or _MARK.search(rest) is None else ""


def marks_of(tokenizer: Tokenizer) -> Marks:
    """The marks that the chat template of ``tokenizer`` writes; the usual ones if it has none."""
    if getattr(tokenizer, "chat_template", None) is None:
        return Marks()
    chat: Any = tokenizer
    thinking = {"reasoning_content": _THOUGHT, "thinking": _THOUGHT}
    for said in ({"content": _SAID}, {"content": "", "tool_calls": [_CALL]}):
        marks = _marks(chat, {"role": "assistant", **said, **thinking})
        if marks is not None:
            return replace(marks, heading=_heading(chat, marks))
    return Marks()


def reader_of(tokenizer: Tokenizer) -> Decode:
    """Decodes what a policy said and saw, for people and writers; special tokens are left out.

    Where the marks of a thought are special tokens, it stands between the usual marks.
    """

    def plain(ids: list[int]) -> str:
        return str(tokenizer.decode(ids, skip_special_tokens=True))

    def read(ids: list[int]) -> str:
        parted = marks.part(str(tokenizer.decode(ids, skip_special_tokens=False)))
        if not parted.thought and not parted.cut:
            return plain(ids)
        answer = tokenizer.encode(marks.answer(parted.rest), add_special_tokens=False)
        return replace(parted, rest=plain(answer)).text

    marks = marks_of(tokenizer)
    opening = tokenizer.encode(marks.opening, add_special_tokens=False)
    one = plain if marks.opening in plain(opening) else read
    return lambda spans: [one(list(ids)) for ids in spans]


def _marks(tokenizer: ChatTokenizer, message: dict[str, Any]) -> Marks | None:
    asked = {"role": "user", "content": _ASKED}
    text = _written(tokenizer, [asked, message], going_on=False)
    prompt = _written(tokenizer, [asked], going_on=True)
    before, thought, after = text.rpartition(_THOUGHT)
    if not thought:
        return None
    new = before[len(prompt) :] if before.startswith(prompt) else ""
    opening = new.strip() or "".join(before.split()[-1:])
    closing = _MARK.match(after.lstrip())
    if closing is None or _MARK.search(opening) is None:
        return None
    usual = _written(tokenizer, [asked, _bare(message), asked], going_on=False)
    marks = Marks(opening, closing.group())
    plain = marks.part(usual).rest if marks.opening in usual else usual
    several = {"role": "assistant", "content": "", "tool_calls": [_CALL, _CALL]}
    calls = _written(tokenizer, [asked, several], going_on=False)
    calls = calls.rpartition(_ASKED)[2] if marks.opening not in calls else ""
    return replace(marks, alone=marks.closing not in plain + calls)


def _bare(message: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": message["content"] or _SAID}


def _heading(tokenizer: ChatTokenizer, marks: Marks) -> str:
    """What the template puts between the prompt and what is said to the user."""
    asked = {"role": "user", "content": _ASKED}
    prompt = _written(tokenizer, [asked], going_on=True)
    text = _written(
        tokenizer, [asked, {"role": "assistant", "content": _SAID}], going_on=False
    ).rpartition(_SAID)[0]
    return marks.part(text[len(prompt) :]).rest.strip() if text.startswith(prompt) else ""


def _written(tokenizer: ChatTokenizer, messages: list[dict[str, Any]], *, going_on: bool) -> str:
    try:
        return rendered(tokenizer, messages, going_on=going_on)
    except InputError:
        return ""
