"""An episode's turns as a reader needs them: without what belongs to the chat template.

Hosts keep turns as the policy's tokenizer gives them back, with or without special tokens. Whoever
shows them to a proposer or a person reads them through :func:`readable`, whichever host it was.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from evoprompt.types import Turn

OPEN_THOUGHT, CLOSE_THOUGHT = "<think>", "</think>"
"""Around a thought in the text of an action, whichever marks the policy uses itself."""


class ReadableTurn(NamedTuple):
    """A turn, taken apart.

    Attributes:
        thought: what a model that thinks said to itself; empty for any other.
        said: what it said beside that.
        seen: what the environment answered.
    """

    thought: str
    said: str
    seen: str


_HEADER = re.compile(  # <|im_start|>user, <|start_header_id|>tool<|end_header_id|>, <start_of_turn>
    r"(?:<\|(?:im_start|start_header_id|start_of_role|start)\|>|<start_of_turn>)"
    r"\s*\w{0,20}\s*(?:<\|(?:end_header_id|end_of_role|im_sep)\|>)?\n*"
)
_MARK = re.compile(
    r"<\|(?:im_end|im_sep|end|endoftext|end_of_text|begin_of_text|eot_id|eom_id|system|user|"
    r"assistant|observation|tool)\|>|<end_of_turn>|<\uff5c[^\uff5c<>\n]{1,40}\uff5c>|</s>\s*\Z"
)
_ROLE = re.compile(  # what is left of a header without its special tokens
    r"\s{0,9}(?:user|tool|ipython|function|environment|observation)[ \t]{0,9}\n"
)
_THINKS = r"(?:<think>\s{0,9}(?:</think>\s{0,9})?)?\Z"
_GOES_ON = re.compile(rf"(?:assistant|model)\s{{0,9}}{_THINKS}")
_THINKS_ON = re.compile(_THINKS)
_TAIL = 80  # characters in which the policy is told to go on
_RESULT = re.compile(r"</?tool_response>[ \t]{0,9}\n?")
_THOUGHT = re.compile(r"<think>(.*?)(?:</think>|\Z)", re.DOTALL)


def readable(turn: Turn) -> ReadableTurn:
    r"""What was thought, said and seen in ``turn``.

    A thought ends with ``</think>``; the template may have begun it before the model spoke.

    >>> debris = "\nuser\n<tool_response>\n42\n</tool_response>\nassistant\n<think>\n"
    >>> readable(Turn("20 + 22?</think>\n\nThe sum, please.<|im_end|>", debris))
    ReadableTurn(thought='20 + 22?', said='The sum, please.', seen='42')
    """
    action = _MARK.sub("", _HEADER.sub("", turn.action))
    before, closed, _ = action.partition("</think>")
    if closed and "<think>" not in before:
        action = f"<think>{action}"
    thought = "\n".join(filter(None, (one.strip() for one in _THOUGHT.findall(action))))
    said = _THOUGHT.sub(" ", action) if thought or closed else action
    return ReadableTurn(thought, said.strip(), _seen(turn.observation))


def _seen(observation: str) -> str:
    bare = _MARK.sub("", _HEADER.sub("\n", observation))
    tail, role = bare[-_TAIL:], _ROLE.match(bare)
    goes_on = _GOES_ON.search(tail)
    if bare != observation:
        goes_on, role = _THINKS_ON.search(tail), None
    elif role is None or goes_on is None:  # one alone may be what a tool said
        return _RESULT.sub("", bare).strip()
    after = len(tail) - goes_on.start() if goes_on else 0
    return _RESULT.sub("", bare[role.end() if role else 0 : len(bare) - after]).strip()
