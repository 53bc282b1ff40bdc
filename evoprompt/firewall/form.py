"""Rules about the shape of a text: nothing there, cut off, or wrapped as data."""

from __future__ import annotations

import json
import re

from evoprompt.firewall.core import FirewallContext
from evoprompt.firewall.protocol import placeholders
from evoprompt.firewall.words import any_of, plain, tags, word_set, words
from evoprompt.types import Proposal

_NO_TEXT = word_set("none null nil nan na todo tbd undefined empty string") | {"n a"}
_LIST_MARKER = any_of(r"</?(?:instruction|candidate|prompt|proposal|variant|option)s?[ _-]?\d*>")
_WRAPPER = re.compile(r"<([^\W\d_][\w-]*)>.*</\1>", re.DOTALL)
_THOUGHTS = re.compile(
    r"<(?:think(?:ing)?|thoughts?|reasoning|analysis)>\s*\w+[^\w<]+\w", re.IGNORECASE
)
_ASSIGNMENT = re.compile(r"\w+\s?=\s?[rf]?(\"\"\"|'''|[\"'])")
_QUOTES = {'"': '"', "“": "”", "„": "“", "«": "»", "「": "」", "'": "'"}
_DANGLING = word_set(
    "a an the and or nor but of to with by for from into at as if because than then such so very",
    "that your its their every each is are be must should will which when while using until",
    "unless therefore thus hence however whether where since although after before during between",
    "und oder der die das den dem dass weil mit für von zu ein eine wenn aber sowie",
    "et ou le les des du un une pour que qui avec dans mais si",
    "y o el los las del para con pero il lo gli che per della ma em com mas",
)
_BULLET = re.compile(r"\s*(?:[-*•]|\d+[.)])\s+")
_ENDS = ".!?。؟।"
_CLOSERS = "\"')*_"
_RULE = re.compile(r"\s*(?:([-=*_])\1{2,}\s*)?")  # a line that only separates
_LITERAL = re.compile(r"[:<>=|`\"「」()\[\]{}]|\W\w\Z")  # what needs no full stop behind it
_DANGLING_END = re.compile(
    r"(?:[的和与與或把并並且则則但而将將从從被对對在]|因为|如果|以及|[をがは])\Z"
)


def empty(proposal: Proposal, _context: FirewallContext) -> str | None:
    """Finds texts without words, and words that stand for no text."""
    if not proposal.components:
        return "the proposal has no text at all"
    for text in proposal.components.values():
        said = " ".join(words(text))
        if not re.search(r"[^\W\d_]", said):
            return "the text holds no words"
        if said in _NO_TEXT:
            return f"{text.strip()!r} stands for no text"
    return None


def serialised(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds texts wrapped as data: JSON, quotes, one fenced block, tags around the whole."""
    text = proposal.text.strip()
    if re.match(r"\{\s*['\"]\w+['\"]\s*:|\[\s*['\"{]", text):
        return _json(text)
    if re.fullmatch(r"(```|~~~).*\1", text, re.DOTALL) and text.count(text[:3]) == 2:
        return "the whole text is one fenced block"
    if text[:1] in _QUOTES and text[-1:] == _QUOTES[text[0]] and text[0] not in text[1:-1]:
        return "the whole text is quoted"
    if _ASSIGNMENT.match(text):
        return "the text is assigned to a name, as in a program"
    marker = _LIST_MARKER.search(text)
    if marker is not None:
        return f"the text holds the list marker {marker.group()!r}"
    known = {name for other in (*context.parents, *context.required) for name, _ in tags(other)}
    wrapper = _WRAPPER.fullmatch(text)
    if wrapper and wrapper.group(1) not in known and text.count(f"</{wrapper.group(1)}>") == 1:
        return f"the whole text stands in the tag <{wrapper.group(1)}>"
    if _THOUGHTS.match(text) and not any(_THOUGHTS.match(parent) for parent in context.parents):
        return "the text begins with the thoughts of its writer"
    return None


def _json(text: str) -> str | None:
    try:
        json.loads(text)
    except RecursionError:
        return "the text is JSON data, nested without end"
    except ValueError:
        return "the text is a broken piece of JSON" if text[-1] in "]}\"'," else None
    return "the text is JSON data, not an instruction"


def truncated(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds texts that stop in the middle; a parent that ends the same way excuses it.

    A full stop that is missing proves little. It counts in running prose alone: where the sentence
    before, in the same line, has one, and the last names no literal, label or tag.
    """
    for text in proposal.components.values():
        reason = _cut(text)
        if reason and not any(_cut(parent) == reason for parent in context.parents):
            return reason
    return None


def _cut(text: str) -> str | None:
    lines = plain(text).splitlines()
    while len(lines) > 1 and _RULE.fullmatch(lines[-1]):
        lines.pop()
    end = "\n".join(lines).rstrip().rstrip("*_\"'")
    *before, last = end.splitlines() or [""]
    if re.search(r"[^\W\d_][ ,]*\.\.\.\Z", end) and ":" not in last:
        return "the text ends in an ellipsis"
    if end and end[-1] in ",;([{/&+=-" and not any(line.endswith(end[-1]) for line in before):
        return f"the text stops at {end[-1]!r}"
    if end.count("(") > end.count(")"):
        return "a parenthesis is opened but not closed"
    if re.fullmatch(r"\s*(?:[-*•]|\d+[.)])", last):
        return "the last list item is empty"
    if last.startswith("#") and not placeholders(text):
        return "the text stops after a heading"
    spoken = words(last)
    if not spoken or not re.match(r"\w", end[-1]):
        return None
    if spoken[-1] in _DANGLING or _DANGLING_END.search(end):
        return f"the text stops after {spoken[-1]!r}"
    if _BULLET.match(last):
        items = [line.rstrip() for line in before if _BULLET.match(line)]
        habit = items and all(re.match(r"\W", item[-1]) for item in items)
        return "the last list item is cut off" if habit and not _LITERAL.search(last) else None
    sentence = _begun(last)
    if sentence and not _LITERAL.search(sentence):
        return "the last sentence is cut off"
    return None


def _begun(line: str) -> str:
    """What follows the last whole sentence in ``line``; nothing when it holds none."""
    at = max(map(line.rfind, _ENDS))
    rest = line[at + 1 :].lstrip(_CLOSERS)
    return rest if at >= 0 and (rest[:1].isspace() or line[at] == "。") else ""
