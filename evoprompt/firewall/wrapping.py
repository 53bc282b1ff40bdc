"""A rule about texts that are wrapped: as data, a program, a quotation or a block."""

from __future__ import annotations

import json
import re

from evoprompt.firewall.core import FirewallContext
from evoprompt.firewall.text import any_of, words
from evoprompt.types import Proposal

_KEY = (
    r"(?:(?:new|improved|revised|updated|final|optimi[sz]ed|system)[ _-]?)?(?:instruction|prompt)s?"
)
_MARKER = any_of(
    rf"</?(?:{_KEY}|candidates?|proposals?|variants?|options?)[ _-]?\d*(?:\s[^<>\n]{{0,60}})?>",
    r"<!\[CDATA\[",
    rf"[\"']{_KEY}[\"']\s*:\s*[\"'\[{{]",
    r"^[ \t]*[\"']?role[\"']?\s*:\s*[\"']?(?:system|user|assistant)\b",
)
_WRAPPER = re.compile(r"<([^\W\d_][\w-]*)>.*</\1>", re.DOTALL)
_QUOTATION = re.compile(r"\\begin\{(\w+)\}.*\\end\{\1\}", re.DOTALL)
_THOUGHTS = re.compile(
    r"<(think(?:ing)?|thoughts?|reasoning|analysis)>"
    r"(?! ?(?:is|means|marks|opens|starts|comes|goes) "  # spoken of
    r"|[^<>]{1,400}</\1>\s*<\w(?s:.)*[^>]\Z)"  # an example that is followed by more than itself
    r"\s*\w+[^\w<]+\w",
    re.IGNORECASE,
)
_ASSIGNMENT = re.compile(
    rf"(?:(?:const|let|var)\s)?\w+\s?=\s?\(?\s?[rfbu]?[\"'`]|(?:return|print)\s?\(?[rfbu]?[\"'`]"
    rf"|[rfbu][\"]|{_KEY}\s?:\s?[\"'`]",
    re.IGNORECASE,
)
_PROGRAM = re.compile(
    r"\A(?:def|class) \w+[^\n]{0,80}:[ \t]*\n|\A(?:import|from) [\w.]+(?: import [\w, ]+)?\n"
    r"|^--- [^\n]*\n\+\+\+ |^@@ -\d",
    re.MULTILINE,
)
_DATA = re.compile(r"\{\s*['\"]\w+['\"]\s*:|\{\s*\w+\s*:\s*['\"]|\[\s*['\"{]")
_BLOCK = re.compile(r"(```|~~~)[^\n`]*\n(.*?)\n[ \t]*\1", re.DOTALL)
_DELIMITER = re.compile(
    r"\W*(?:begin|start|end)(?:ning)?(?: of)?(?: the)?(?: new)?[ _](?:prompt|instruction|text)s?\W*"
    r"|\s*(?:[-=*_~#<>+]{3,}|[\"'`]{3})\s*",
    re.IGNORECASE,
)
_PAIRS = """ "" '' `` “” ““ ”” „“ „” «» »« ‹› ›‹ ‘’ ’’ ‚‘ ‚’ 「」 『』 《》 〈〉 【】 [] () """
_MOST = 0.6
"""A block that holds more than this part of a text's words is the text."""


def serialised(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds texts wrapped as data: JSON, a program, quotes, a block or tags around the whole."""
    text = proposal.text.strip()
    if _PROGRAM.search(text) and not any(map(_PROGRAM.search, context.parents)):
        return "the text is a program or a diff"
    if _DATA.match(text):
        return _json(text)
    if _wrapped(text) or _QUOTATION.fullmatch(text):
        return "the whole text is quoted"
    if _ASSIGNMENT.match(text):
        return "the text is assigned to a name, as in a program"
    block = _BLOCK.match(text)
    if block and text.count(text[:3]) == 2 and len(words(block[2])) > _MOST * len(words(text)):
        return "the text is one fenced block"
    if text and all(line.lstrip()[:1] == ">" for line in text.splitlines() if line.strip()):
        return "every line is quoted with '>'"
    for marker in _MARKER.finditer(text):
        if not any(marker.group() in other for other in (*context.parents, *context.required)):
            return f"the text holds the marker {marker.group().strip()!r}"
    wrapper = _WRAPPER.fullmatch(text)
    habit = any(_WRAPPER.fullmatch(parent.strip()) for parent in context.parents)
    if wrapper and not habit and text.count(f"</{wrapper.group(1)}>") == 1:
        return f"the whole text stands in the tag <{wrapper.group(1)}>"
    if _THOUGHTS.match(text) and not any(_THOUGHTS.match(parent) for parent in context.parents):
        return "the text begins with the thoughts of its writer"
    return None


def _wrapped(text: str) -> bool:
    """Whether quotes, brackets or lines of marks enclose the whole, or open it and never close."""
    if text.startswith(('"""', "'''")) or text.endswith(('"""', "'''")):
        return True
    fence = re.match(r"[`~]{3,}", text)
    if fence and text.endswith(fence[0]) and fence[0] not in text[len(fence[0]) : -len(fence[0])]:
        return True
    lines = text.splitlines()
    if len(lines) > 2 and _DELIMITER.fullmatch(lines[0]) and _DELIMITER.fullmatch(lines[-1]):
        return True
    text = text.rstrip(",;").strip("*_ ")
    first, inner = text[:1], text[1:-1]
    if text.count('"') == 1 and (first == '"' or re.search(r'[^\d\s:]"\Z', text)):
        return True
    if len(text) < 2 or first + text[-1] not in _PAIRS or len(words(inner)) < 2:
        return False
    if text[-1] != first:
        depth = 1
        for char in inner:
            depth += (char == first) - (char == text[-1])
            if not depth:
                return False
        return depth == 1
    # The next quote inside would close the first, unless a word only begins there.
    quote = re.search(rf"(?<!\\)(?<!\w){first}|(?<!\\){first}(?!\w)", inner)
    before = inner[: quote.start()][-1:] if quote else ""
    return not quote or ((not before or before in " \n\t([") and inner[quote.end() :][:1].isalnum())


def _json(text: str) -> str | None:
    try:
        json.loads(text)
    except RecursionError:
        return "the text is JSON data, nested without end"
    except ValueError:
        return "the text is a broken piece of JSON" if text[-1] in "]}\"'," else None
    return "the text is JSON data, not an instruction"
