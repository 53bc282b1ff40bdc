"""Rules about the shape of a text: nothing there, cut off, or wrapped as data."""

from __future__ import annotations

import json
import re

from evoprompt.firewall.core import FirewallContext
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
    "your its their every each is are be must should will which when while using until unless",
    "therefore thus hence however whether where since although after before during between through",
    "und oder der das dass weil mit für von zu ein eine wenn aber sowie",
    "et ou le les des du un une pour que qui avec dans mais si",
    "y o el los las del para con pero il lo gli che per della ma em com mas",
)
_BULLET = re.compile(r"\s*(?:[-*•]|\d+[.)])\s+")
_ENDS = ".!?。؟।"
_CLOSERS = "\"')*_"


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

    A text is held to its own habit: if the sentence (or list item) before the last ends with
    punctuation and the last does not, it was cut.
    """
    for text in proposal.components.values():
        reason = _cut(text)
        if reason and not any(_cut(parent) == reason for parent in context.parents):
            return reason
    return None


def _cut(text: str) -> str | None:
    end = plain(text).rstrip().rstrip("*_\"'")
    if end.endswith("..."):
        return "the text ends in an ellipsis"
    if end and end[-1] in ",;([{/&+=-":
        return f"the text stops at {end[-1]!r}"
    if end.count("(") > end.count(")"):
        return "a parenthesis is opened but not closed"
    *before, last = end.splitlines() or [""]
    if re.fullmatch(r"\s*(?:[-*•]|\d+[.)])", last):
        return "the last list item is empty"
    if last.startswith("#"):
        return "the text stops after a heading"
    spoken = words(last)
    if not spoken or not re.match(r"\w", end[-1]):
        return None
    if spoken[-1] in _DANGLING:
        return f"the text stops after {spoken[-1]!r}"
    if _BULLET.match(last):
        items = [line.rstrip() for line in before if _BULLET.match(line)]
        complete = items and all(re.match(r"\W", item[-1]) for item in items)
        return "the last list item is cut off" if complete else None
    return "the last sentence is cut off" if _ended("\n".join(before)) or _begins(last) else None


def _ended(text: str) -> bool:
    """Whether ``text`` ends with a whole sentence."""
    return text.rstrip().rstrip(_CLOSERS)[-1:] in tuple(_ENDS)


def _begins(line: str) -> bool:
    """Whether another sentence ends in ``line``, and the one that ends it follows."""
    at = max(map(line.rfind, _ENDS))
    rest = line[at + 1 :].lstrip(_CLOSERS)
    return at >= 0 and (rest[:1].isspace() or line[at] == "。")
