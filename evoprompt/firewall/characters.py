"""Rules about characters that a reader does not see, or takes for others."""

from __future__ import annotations

import re

from evoprompt.firewall.core import FirewallContext
from evoprompt.firewall.text import any_of, plain
from evoprompt.text import stacked
from evoprompt.types import Proposal

_CONTROL = any_of(
    r"<\|[^|<>]{1,40}\|>",
    r"\[/?(?:INST|SYS|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|CLS|SEP|PAD|BOS|EOS)\]|"
    r"<</?SYS>>",
    r"</?s>|<(?:bos|eos|pad|unk|mask|eot_id|sep|cls)>|</?(?:start|end)_of_(?:turn|text)>",
    r"\[\[ ## .{0,40}? ## \]\]",  # DSPy's field markers
    r"\A\W*(?:human|assistant|user|system)[ \t*]*:",  # further down it is an example
    r"\n[ \t#*]*(?:human|assistant|user|system)[ \t*]*:[^\n]*\s*\Z",  # but for a last word
    r"\A\W*(?:assistant|user|system)[ \t]*\n",
    r"^[ \t]*#+ *(?:instruction|response|input)s? *:",
)
_HIDDEN = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"  # controls, C1 included; then no width
    r"|[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060-\u2064\u3164\ufeff\uffa0]"
    r"|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f]"  # direction
    r"|[\u2028\u2029\ufff9-\uffff\ud800-\udfff\ue000-\uf8ff]|[\U000e0000-\U0010ffff]"  # no letters
)
_JOINER = re.compile("[\u200c\u200d]")
_WORD = re.compile(r"\w+")
_LATIN = re.compile(r"[A-Za-z]")
_OTHER = re.compile(r"[\u0370-\u03ff\u0400-\u052f]")
_TWINS = frozenset("асеорхуѕіјԁһкмтвнАВСЕНІЈКМОРЅТХУοναρυΑΒΕΖΗΙΚΜΝΟΡΤΥΧ")
"""Cyrillic and Greek letters that look like Latin ones."""


def chat_control(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds control tokens of chat templates and role markers."""
    text = proposal.text
    found = _CONTROL.search(plain(text))
    if found is not None:
        return f"the text holds the control token {found.group().strip()!r}"
    for token in context.control_tokens:
        if token in text and not any(token in parent for parent in context.parents):
            return f"the text holds {token!r}, a special token of the policy's tokenizer"
    return None


def hidden_character(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds characters that are not seen: controls, zero width, direction, private use, stacks.

    Joiners are let through where scripts need them: next to letters of scripts that join (Arabic,
    Indic) and inside an emoji.
    """
    for found in _HIDDEN.finditer(proposal.text):
        if not _in_parents(found.group(), context):
            return f"the text holds the invisible character U+{ord(found.group()):04X}"
    text = proposal.text
    for found in _JOINER.finditer(text):
        at = found.start()
        if not (_joins(text[at - 1 : at]) and _joins(text[at + 1 : at + 2])):
            return f"the text holds the invisible character U+{ord(found.group()):04X}"
    return "the text stacks marks on one letter" if stacked(text) else None


def lookalike(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds Latin words in which a letter is a Cyrillic or Greek twin of the Latin one."""
    if not _OTHER.search(proposal.text):
        return None
    for word in _WORD.findall(proposal.text):
        others = _OTHER.findall(word)
        mixed = others and _LATIN.search(word) and _TWINS.issuperset(others)
        if mixed and not _in_parents(word, context):
            return f"the word {word!r} mixes alphabets that look alike"
    return None


def _joins(char: str) -> bool:
    """Whether ``char`` is a letter or mark of a script that joins, or part of an emoji."""
    return "\u0590" <= char <= "\u1cff" or (char >= "\u2190" and not char.isalpha())


def _in_parents(part: str, context: FirewallContext) -> bool:
    return any(part in text for text in (*context.parents, *context.required))
