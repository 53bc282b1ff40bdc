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
from evoprompt.firewall.words import any_of, plain, without_quotes
from evoprompt.types import Proposal

_REFUSAL = any_of(DECLINED)
_TEXT = rf"(?:{PROMPT}|{DRAFT})"
_NEAR = r"[^.!?。！？\n]{0,60}?"
_META = any_of(
    rf"\A[^\w\n]*{ACKNOWLEDGED}[^\S\n]*(?:[,.!:，。！：、-]|$)",
    rf"{PRESENTED}{_NEAR}{_TEXT}",
    rf"{PROPOSED}{_NEAR}{_TEXT}",
    rf"\b(?:this|the|my|our) (?:{NEW}|above) {PROMPT}\b",
    rf"\bthis {_TEXT} (?:\w{{1,20}}ly )?(?:is|will|now|should|adds?|address\w*|fix\w*|improv\w*|"
    r"emphasi[sz]\w*|ensur\w*|clarif\w*|encourag\w*|mak\w+|keeps?|focus\w*|combin\w*|aims?)\b",
    rf"\b(?:original|previous|parent|current|old) {PROMPT}\b",
    r"\b(?:the|these|those|given) (?:failed (?:trajectories|examples?|attempts?)|"
    r"failure (?:cases|modes|analysis))\b",
    r"^[^\w\n]*(?:rationale|analysis|explanation|reasoning|root causes?|diagnosis|feedback|"
    r"begründung|analyse|erklärung|explication|justification|explicación|análisis|spiegazione|explicação|"
    r"объяснение|açıklama|分析|解释|说明|説明|解説|설명)\b[^\w\n]{0,4}[:：]",
    r"\b(?:the )?user (?:wants|asked|asks|is asking) (?:me|us|for)\b",
    CLOSING,
)
_NAMES = re.compile(
    rf"(?:{_TEXT}|{NEW}|[\s\-]|#|\b(?:a|an|the|my|our|no|number|v|[a-e]|\d{{1,3}})\b|v\d+)+"
)
_NUMBERED = re.compile(r"\b(?:[a-e]|v?\d{1,3})\b")
_SECTION = re.compile(r"(?:instructions|options|alternatives|prompts)\Z")
_LABEL = 90  # characters; longer lines are no headings


def refusal(proposal: Proposal, _context: FirewallContext) -> str | None:
    """Finds a model that declines instead of writing; quoted refusals are only mentioned."""
    found = _REFUSAL.search(without_quotes(proposal.text.strip().strip("\"'`")))
    return f"the text declines: {found.group()!r}" if found else None


def meta_talk(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds talk about the proposal itself: introductions, headings, comments on the change."""
    text = without_quotes(proposal.text.strip())
    found = _META.search(plain(text).strip())
    said = found.group() if found else _heading(text)
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
        if is_new or numbered or colon:
            return label.strip()
    return ""
