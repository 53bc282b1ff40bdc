"""Rules about a model that talks to us instead of writing the instruction."""

from __future__ import annotations

import re

from evoprompt.firewall.core import FirewallContext
from evoprompt.firewall.phrases import (
    ACKNOWLEDGED,
    CLOSING,
    DECLINED,
    DRAFT,
    NEW,
    PRESENTED,
    PROMPT,
    PROPOSED,
)
from evoprompt.firewall.remarks import remark
from evoprompt.firewall.text import any_of, plain, without_quotes
from evoprompt.types import Proposal

_REFUSAL = any_of(DECLINED)
_CLOSING = any_of(CLOSING)
_ENDED = re.compile(r"[.!?。！？\n]")
_INTRODUCED = re.compile(r"\w\W+\w.*[:：]")  # "end by saying:"
# A sentence that tells somebody what to say, or when, is not the model speaking of itself.
_TOLD = any_of(
    r"\b(?:if|when|whenever|unless|never|don't|do not|says?|write|answer|reply|respond|wenn|falls|"
    r"nie|sage?|schreibe?|si|nunca|jamais|dis|écris|di|escribas?|se|если|никогда|пиши)\b",
    r"不要|如果|别|勿|不必",
)
_TEXT = rf"(?:{PROMPT}|{DRAFT})"
_NEAR = r"[^.!?。！？\n]{0,60}?"
_META = any_of(
    rf"\A[^\w\n]*{ACKNOWLEDGED}[^\S\n]*(?:[,.!:，。！：、-]|$)",
    rf"{PRESENTED}(?! (?:the|an?) (?:most|only|single|main|whole|key|central|one)\b)"
    rf"{_NEAR}(?!options?\b){_TEXT}",
    rf"{PROPOSED}{_NEAR}{_TEXT}",
    rf"{NEW}{PROMPT}(?:は|如下)",
    rf"\b(?:this|the|my|our) (?:{NEW}|above) {PROMPT}\b",
    rf"\bthis (?:{PROMPT}|version|rewrite|revision|rewording|draft|variant) (?:\w{{1,20}}ly )?"
    r"(?:is|will|now|should|adds?|address\w*|fix\w*|improv\w*|emphasi[sz]\w*|ensur\w*|clarif\w*|"
    r"encourag\w*|mak\w+|keeps?|focus\w*|combin\w*|aims?)\b",
    r"\b(?:original|previous|parent|current|old) (?:system )?(?:prompt|instruction)\b",
    r"\b(?:the|these|those|given) (?:failed (?:trajectories|examples?|attempts?)|"
    r"failure (?:cases|modes|analysis))\b",
    r"^[^\w\n]*(?:rationale|root causes?)\b[^\w\n]{0,4}:",
    r"\b(?:the )?user (?:wants|asked|asks|is asking) (?:me|us)\b",
    r"^[^\w\n]*alternativ(?:ely)?[^\w\n]*$",
)
_COMMENT = any_of(
    r"^[^\w\n]*(?:analysis|explanation|reasoning|diagnosis|feedback|begründung|analyse|erklärung|"
    r"explication|justification|explicación|análisis|spiegazione|explicação|объяснение|açıklama|分析|"
    r"解释|说明|説明|解説|설명)\b[^\w\n]{0,4}:"
)
_LABELLED = re.compile(r"^[^\w\n]*[^\W\d_][\w ]{0,30}[^\w\n]{0,4}:|\. [A-Z]\w{1,30}:", re.MULTILINE)
_NAMES = re.compile(
    rf"(?:{_TEXT}|{NEW}|[\s\-]|#|\b(?:a|an|the|my|our|no|number|v|[a-e]|\d{{1,3}})\b|v\d+)+"
)
_NUMBERED = re.compile(r"\b(?:[a-e]|v?\d{1,3})\b")
_SECTION = re.compile(r"(?:instructions|options|alternatives|prompts)\Z")
_BEGINNING = 50  # characters of a sentence before what it says
_LABEL = 90  # characters; longer lines are no headings


def refusal(proposal: Proposal, _context: FirewallContext) -> str | None:
    """Finds a model that declines instead of writing.

    It does so at the beginning of a sentence; elsewhere, as in quotes, a refusal is only mentioned.
    """
    text = without_quotes(proposal.text.strip().strip("\"'`"))
    for found in _REFUSAL.finditer(text):
        before = _before(text, found)
        if before is not None and not _TOLD.search(before):
            return f"the text declines: {found.group()!r}"
    return None


def _before(text: str, found: re.Match[str]) -> str | None:
    """How the sentence of ``found`` begins; None when it is long, or introduces what follows."""
    start = found.start()
    before = _ENDED.split(text[max(start - _BEGINNING, 0) : start])[-1]
    return None if len(before) == _BEGINNING or _INTRODUCED.search(before) else before


def meta_talk(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds talk about the proposal itself: introductions, headings, comments on the change."""
    text = without_quotes(proposal.text.strip())
    simple = plain(text).strip()
    found = _META.search(simple)
    if not found and len(_LABELLED.findall(simple)) < 2:  # several labels are a form to fill in
        found = _COMMENT.search(simple)
    if not found:
        ends = _CLOSING.finditer(simple)
        found = next((end for end in ends if _before(simple, end) is not None), None)
    said = found.group() if found else _heading(text) or remark(simple, context.parents)
    if said and not any(said.casefold() in plain(other).casefold() for other in context.parents):
        return f"the text talks about itself: {' '.join(said.split())!r}"
    return None


def _heading(text: str) -> str:
    """The first line, or part of one before a colon, that only names a text; else nothing.

    ``New instruction``, ``**Revised prompt (v2):**`` and ``Version B:`` name one, ``Instructions:``
    begins a section.
    """
    for line in text.splitlines():
        label, colon, _ = plain(line[: 2 * _LABEL]).partition(":")
        named = re.sub(r"[*_`~=()\[\]{}.|>]+", " ", label).strip(" #-\t").casefold()
        if not named or len(named) > _LABEL or not _NAMES.fullmatch(named):
            continue
        is_new, numbered = re.search(rf"\b{NEW}", named), _NUMBERED.search(named)
        if not re.search(_TEXT, named) or _SECTION.fullmatch(named):
            continue
        if is_new or numbered or (colon and re.search(PROMPT, named)):
            return label.strip()
    return ""
