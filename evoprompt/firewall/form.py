"""Rules about the shape of a text: nothing there, cut off, unbalanced, not plain text at all."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import groupby

from evoprompt.firewall.core import FirewallContext
from evoprompt.firewall.words import sentences, tags, words
from evoprompt.types import Proposal

_NO_TEXT = {"none", "null", "nil", "nan", "n a", "na", "todo", "tbd", "undefined", "empty", "string"}
_CONTROL = re.compile(
    r"<\|[^|<>\s]{1,40}\|>"  # <|im_start|>, <|eot_id|>
    r"|<[｜|][^<>]{1,40}[｜|]>"
    r"|\[/?(?:INST|SYS|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]|<</?SYS>>"
    r"|</?s>|<(?:bos|eos|pad|unk|mask|BOS|EOS|PAD)>|</?(?:start|end)_of_(?:turn|text)>"
    r"|\[(?:CLS|SEP|PAD|MASK|BOS|EOS)\]"
    r"|\[\[ ## .{0,40}? ## \]\]"  # DSPy's field markers
    r"|^\s*(?:#+\s*|\*\*)?(?:Human|Assistant|User|System|Bot|AI)(?:\*\*)?\s*:"
    r"|^\s*#+\s*(?:Instruction|Response|Input)\s*:",
    re.MULTILINE,
)
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffd\u200e\u200f\u202a-\u202e\ufeff]")
_DANGLING = {
    "a", "an", "the", "and", "or", "nor", "but", "of", "to", "with", "by", "for", "from", "into",
    "at", "as", "if", "because", "than", "then", "your", "its", "their", "every", "each", "is",
    "are", "be", "must", "should", "will", "which", "when", "while", "using", "such", "until",
    "unless", "whether", "very", "so", "e.g", "i.e",
}  # fmt: skip
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)]|#+)\s+")
_MENTION = re.compile(
    r"`[^`\n]*`|</?[A-Za-z][\w-]*>(?=[\s\"'’”]*(?:tags?|blocks?|elements?|mark))"
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


def chat_control(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds control tokens of chat templates, role markers and unprintable characters."""
    text = proposal.text
    found = _CONTROL.search(text)
    if found is not None:
        return f"the text holds the chat control token {found.group().strip()!r}"
    for token in context.control_tokens:
        if token in text and not any(token in parent for parent in context.parents):
            return f"the text holds {token!r}, a special token of the policy's tokenizer"
    unprintable = _UNPRINTABLE.search(text)
    if unprintable is not None:
        return f"the text holds the control character {unprintable.group()!r}"
    return None


def serialised(proposal: Proposal, _context: FirewallContext) -> str | None:
    """Finds texts wrapped as data: JSON, one fenced block, or tags that number candidates."""
    text = proposal.text.strip()
    if re.match(r"^[\[{]", text):
        try:
            parsed = json.loads(text)
        except ValueError:
            parsed = None
        if isinstance(parsed, (dict, list)):
            return "the text is JSON data, not an instruction"
        if re.match(r"^(?:\{\s*['\"]\w+['\"]\s*:|\[\s*['\"])", text):
            return "the text is a broken piece of JSON"
    if re.fullmatch(r"(```|~~~).*\1", text, re.DOTALL) and text.count(text[:3]) == 2:
        return "the whole text is one fenced block"
    numbered = re.search(
        r"</?(?:instruction|candidate|prompt|proposal|variant|option)[ _-]?\d*>", text, re.IGNORECASE
    )
    if numbered is not None:
        return f"the text holds the list marker {numbered.group()!r}"
    return None


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
    cut = re.search(r"</?[A-Za-z][\w-]*(?=\s*(?:<|\n|$))|</?$", text)
    if cut is not None:
        return f"the tag {cut.group()!r} is cut off"
    surplus = _surplus(text)
    for name, count in surplus.items():
        if count and not any(_surplus(parent)[name] == count for parent in context.parents):
            return (
                f"<{name}> is opened {count} time(s) more than closed"
                if count > 0
                else f"</{name}> closes {-count} time(s) more than <{name}> opens"
            )
    crossed = _crossed(text, {name for name, count in surplus.items() if not count})
    if crossed is not None and not any(
        _crossed(parent, {crossed}) == crossed for parent in context.parents
    ):
        return f"</{crossed}> closes before it is opened, or across another tag"
    return None


def _surplus(text: str) -> Counter[str]:
    """Openings minus closings of each tag, mentions left out."""
    count: Counter[str] = Counter()
    for name, closes in tags(_MENTION.sub(" ", text)):
        count[name] += -1 if closes else 1
    if any(count.values()):  # "<search> and </search> tags" mentions only the last one with its noun
        whole: Counter[str] = Counter()
        for name, closes in tags(text):
            whole[name] += -1 if closes else 1
        for name in count:
            if not whole[name]:
                count[name] = 0
    return count


def _crossed(text: str, names: set[str]) -> str | None:
    """The first of ``names`` that is not properly nested."""
    open_tags: list[str] = []
    for name, closes in tags(text):
        if name not in names:
            continue
        if not closes:
            open_tags.append(name)
        elif not open_tags or open_tags.pop() != name:
            return name
    return None


def truncated(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds texts that stop in the middle.

    A text is held to its own habit: if its other sentences (or list items) end with punctuation
    and the last does not, it was cut. A parent that ends the same way excuses it.
    """
    for text in proposal.components.values():
        reason = _cut(text)
        if reason is not None and not any(_cut(parent) == reason for parent in context.parents):
            return reason
    return None


def _cut(text: str) -> str | None:
    stripped = text.rstrip().rstrip("*_\"'”’")
    last_line = stripped.rsplit("\n", 1)[-1]
    if re.search(r"(?:\.\.\.|…)$", stripped):
        return "the text ends in an ellipsis"
    if re.search(r"[,;(\[{/&+=–—-]$", stripped):
        return f"the text stops at {stripped[-1]!r}"
    if re.fullmatch(r"\s*(?:[-*•]|\d+[.)])", last_line):
        return "the last list item is empty"
    if stripped.count("(") > stripped.count(")") + len(re.findall(r"^\s*\w+\)", text, re.MULTILINE)):
        return "a parenthesis is opened but not closed"
    spoken = words(last_line)
    if not spoken or not re.search(r"\w$", stripped):
        return None
    if spoken[-1] in _DANGLING:
        return f"the text stops after {spoken[-1]!r}"
    if last_line.lstrip().startswith("#"):
        return "the text stops after a heading"
    if _BULLET.match(last_line):
        items = [line for line in text.rstrip().splitlines() if _BULLET.match(line)][:-1]
        ended = [bool(re.search(r"[.!?:>)\"”`*]\s*$", item)) for item in items]
        return "the last list item is cut off" if ended and all(ended) else None
    before = stripped[: len(stripped) - len(re.split(r"(?<=[.!?])\s+|\n", stripped)[-1])]
    if re.search(r"[.!?][\"'”’)*_]*\s*$", before):
        return "the last sentence is cut off"
    return None


def repetitive(proposal: Proposal, _context: FirewallContext) -> str | None:
    """Finds a model that got stuck: a word five times in a row, a sentence four times."""
    text = proposal.text
    run = next((word for word, same in groupby(words(text)) if len(list(same)) >= 5), None)
    if run is not None:
        return f"the word {run!r} is repeated without end"
    counts = Counter(tuple(part) for part in sentences(text))
    often = next((part for part, count in counts.items() if count >= 4), None)
    if often is not None:
        return f"the sentence {' '.join(often)!r} is repeated {counts[often]} times"
    return None
