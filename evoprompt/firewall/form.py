"""Rules about the shape of a text: nothing there, or cut off."""

from __future__ import annotations

import re

from evoprompt.firewall.core import FirewallContext
from evoprompt.firewall.protocol import placeholders
from evoprompt.firewall.text import plain, without_quotes, word_set, words
from evoprompt.types import Proposal

_NO_TEXT = word_set("none null nil nan na todo tbd undefined empty string") | {"n a"}
_DANGLING = word_set(
    "a an the and or nor but of to with by for from into at as if because than then such so very",
    "that your its their every each is are be must should would could might shall was were will "
    "which when while using until",
    "unless therefore thus hence however whether where since although after before during between "
    "about against through without within upon toward towards among via per whom",
    "und oder der die das den dem dass weil mit für von zu ein eine wenn aber sowie",
    "et ou le les des du un une pour que qui avec dans mais si",
    "y o el los las del para con pero il lo gli che per della ma em com mas",
)
_BULLET = re.compile(r"\s*(?:[-*•]|\d+[.)])\s+")
_ENDS = ".!?。؟।"
_CLOSERS = "\"')*_"
_RULE = re.compile(r"\s*(?:([-=*_])\1{2,}\s*)?")  # a line that only separates
_LITERAL = re.compile(r"[:<>=|`\"「」()\[\]{}]|\W\w\Z")  # what needs no full stop behind it
_ANNOUNCES = re.compile(
    r"\b(?:as follows|following|follow|examples?|for instance|such as|like this|like so|namely|"
    r"these|steps|"
    r"rules|these \w+|following \w+|folgende\w*|folgt|beispiel|suivante?s?|exemple|siguientes?|"
    r"ejemplo|"
    r"seguent[ei]|esempio|seguintes?|exemplo)\s*[:：]\Z|(?:如下|例如|以下|下面|比如|次の通り|例えば)\s*[:：]\Z",
    re.IGNORECASE,
)
_ABBREVIATED = re.compile(r"(?:e\.g\.|i\.e\.|z\. ?b\.|(?<=\s)\[(?:\.\.\.|…)\])\Z", re.IGNORECASE)
_OPENED = re.compile(r"(?:^|[\s(:,\[{=])\"[^\"]*\Z")
_BOLD = re.compile(r"(?:^|\s)\*\*\w[^*]*\Z")
_FACE = re.compile(r"[:;]-?[(\[{]")
_BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"))
_QUOTES = (("“", "”"), ("「", "」"), ("『", "』"))
_SPOKEN = 5  # words of a line of prose
_TAIL = 8  # words at the end that tell whether a full stop is needed
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
    if _ANNOUNCES.search(end) or _ABBREVIATED.search(end):
        return "the text stops where it announces more"
    opened = _opened(text)
    if opened:
        return f"{opened!r} is opened but not closed"
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
    above = [line.rstrip() for line in before if len(words(line)) >= _SPOKEN]
    habit = above and all(line.endswith(tuple(_ENDS)) for line in above)
    sentence = _begun(last) or (last if habit and len(spoken) >= _SPOKEN else "")
    if sentence and not _LITERAL.search(" ".join(sentence.split()[-_TAIL:])):
        return "the last sentence is cut off"
    return None


def _opened(text: str) -> str:
    """The bracket, quote or emphasis that ``text`` opens and never closes, or nothing."""
    for one, other in _QUOTES:
        if text.count(one) > text.count(other) and "„" not in text:
            return one
    if text.count("«") != text.count("»"):
        return "«"
    last = plain(text).rstrip().rpartition("\n")[2]
    if last.count('"') % 2 and _OPENED.search(last):
        return '"'
    if last.count("**") % 2 and _BOLD.search(last):
        return "**"
    bare = _FACE.sub(" ", without_quotes(text))
    if sum(map(bare.count, "([{")) > sum(map(bare.count, ")]}")):
        return next((one for one, other in _BRACKETS if bare.count(one) > bare.count(other)), "")
    return ""


def _begun(line: str) -> str:
    """What follows the last whole sentence in ``line``; nothing when it holds none."""
    at = max(map(line.rfind, _ENDS))
    rest = line[at + 1 :].lstrip(_CLOSERS)
    return rest if at >= 0 and (rest[:1].isspace() or line[at] == "。") else ""
