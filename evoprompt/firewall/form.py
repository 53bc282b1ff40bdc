"""Rules about the shape of a text: nothing there, cut off, unbalanced, not plain text at all."""

from __future__ import annotations

import json
import re
from collections import Counter

from evoprompt.firewall.core import FirewallContext
from evoprompt.firewall.words import any_of, plain, tags, word_set, words
from evoprompt.types import Proposal

_NO_TEXT = word_set("none null nil nan na todo tbd undefined empty string") | {"n a"}
_CONTROL = any_of(
    r"<\|[^|<>]{1,40}\|>",
    r"\[/?(?:INST|SYS|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|CLS|SEP|PAD|MASK|BOS|EOS)\]|<</?SYS>>",
    r"</?s>|<(?:bos|eos|pad|unk|mask)>|</?(?:start|end)_of_(?:turn|text)>",
    r"\[\[ ## .{0,40}? ## \]\]",  # DSPy's field markers
    r"^[\s#*]*(?:human|assistant|user|system)[\s*]*:",
    r"^\s*#+ *(?:instruction|response|input)s? *:",
)
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffd\u200e\u200f\u202a-\u202e\ufeff]")
_LIST_MARKER = any_of(r"</?(?:instruction|candidate|prompt|proposal|variant|option)s?[ _-]?\d*>")
_CUT_TAG = re.compile(r"</?[A-Za-z][\w-]*(?=\s*(?:<|\n|$))|</?$")
_MENTION = re.compile(r"`[^`\n]*`|</?[A-Za-z][\w-]*>(?=[\s\"']*(?:tag|block|element|marker))")
_DANGLING = word_set(
    "a an the and or nor but of to with by for from into at as if because than then such so very",
    "your its their every each is are be must should will which when while using until unless",
)
_BULLET = re.compile(r"\s*(?:[-*•]|\d+[.)])\s+")


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


def chat_control(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds control tokens of chat templates, role markers and unprintable characters."""
    text = proposal.text
    found = _CONTROL.search(plain(text)) or _UNPRINTABLE.search(text)
    if found is not None:
        return f"the text holds the control token {found.group().strip()!r}"
    for token in context.control_tokens:
        if token in text and not any(token in parent for parent in context.parents):
            return f"the text holds {token!r}, a special token of the policy's tokenizer"
    return None


def serialised(proposal: Proposal, _context: FirewallContext) -> str | None:
    """Finds texts wrapped as data: JSON, one fenced block, or tags that number candidates."""
    text = proposal.text.strip()
    if re.match(r"\{\s*['\"]\w+['\"]\s*:|\[\s*['\"{]", text):
        try:
            json.loads(text)
        except ValueError:
            return "the text is a broken piece of JSON" if text[-1] in "]}\"'," else None
        return "the text is JSON data, not an instruction"
    if re.fullmatch(r"(```|~~~).*\1", text, re.DOTALL) and text.count(text[:3]) == 2:
        return "the whole text is one fenced block"
    marker = _LIST_MARKER.search(text)
    return f"the text holds the list marker {marker.group()!r}" if marker else None


def unbalanced(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds tags that are opened or closed once too often, crossed or cut, and open fences.

    A tag that is only mentioned (in backticks, or followed by the word "tag") need not be
    closed; neither need one that a parent leaves open in the same way.
    """
    text = proposal.text
    if text.count("```") % 2 or text.count("~~~") % 2:
        return "a code fence is opened but not closed"
    if re.sub(r"```.*?```", "", text, flags=re.DOTALL).count("`") % 2:
        return "a backtick is opened but not closed"
    cut = _CUT_TAG.search(text)
    if cut is not None:
        return f"the tag {cut.group()!r} is cut off"
    for name, count in _surplus(text).items():
        if count and not any(_surplus(parent)[name] == count for parent in context.parents):
            more, fewer = ("opened", "closed") if count > 0 else ("closed", "opened")
            return f"the tag {name!r} is {more} more often than {fewer}"
    crossed = _crossed(text)
    if crossed and not any(_crossed(parent) == crossed for parent in context.parents):
        return f"the tag {crossed!r} closes before it opens, or across another tag"
    return None


def _surplus(text: str) -> Counter[str]:
    """Openings minus closings of each tag; 0 if they agree with or without the mentions."""
    everywhere, spoken = Counter[str](), Counter[str]()
    for name, closes in tags(text):
        everywhere[name] += -1 if closes else 1
    for name, closes in tags(_MENTION.sub(" ", text)):
        spoken[name] += -1 if closes else 1
    return Counter({name: count for name, count in spoken.items() if everywhere[name]})


def _crossed(text: str) -> str | None:
    """The first tag that is not properly nested, among those opened as often as closed."""
    surplus, opened = _surplus(text), list[str]()
    for name, closes in tags(text):
        if surplus[name]:
            continue
        if not closes:
            opened.append(name)
        elif not opened or opened.pop() != name:
            return name
    return None


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
    if re.search(r"[,;(\[{/&+=-]$", end):
        return f"the text stops at {end[-1]!r}"
    if end.count("(") > end.count(")"):
        return "a parenthesis is opened but not closed"
    *before, last = end.splitlines() or [""]
    if re.fullmatch(r"\s*(?:[-*•]|\d+[.)])", last):
        return "the last list item is empty"
    if last.startswith("#"):
        return "the text stops after a heading"
    spoken = words(last)
    if not spoken or not re.search(r"\w$", end):
        return None
    if spoken[-1] in _DANGLING:
        return f"the text stops after {spoken[-1]!r}"
    if _BULLET.match(last):
        items = [line.rstrip() for line in before if _BULLET.match(line)]
        complete = items and all(re.search(r"\W$", item) for item in items)
        return "the last list item is cut off" if complete else None
    earlier = re.search(r"[.!?][\"')*_]*\s+[^.!?\n]*$|[.!?][\"')*_]*\s*\n+[^\n]*$", end)
    return "the last sentence is cut off" if earlier else None
