"""Rules about a model that talks to us instead of writing the instruction."""

from __future__ import annotations

from evoprompt.firewall.core import FirewallContext
from evoprompt.firewall.words import any_of, plain, without_quotes
from evoprompt.types import Proposal

_REFUSAL = any_of(
    r"\bi(?:'?m| am)(?: (?:so|very|truly|really))? (?:sorry|afraid|unable|not able|not allowed)\b",
    r"\bi (?:apologi[sz]e|regret|must decline|won't|will not|can't|cant|cannot|can not|couldn't)\b",
    r"\bi (?:don't|do not) (?:feel comfortable|have (?:enough|access|the))\b",
    r"\bas an? (?:ai|artificial intelligence|(?:large )?language model)\b",
    r"\b(?:against|violates?) (?:my|our|the) (?:guidelines|polic(?:y|ies)|programming)\b",
    r"\b(?:unfortunately|regrettably),? (?:i|we|this|your|the)\b",
    r"\b(?:my apologies|sorry)\s?[,.!:-]",
    r"\bunable to (?:comply|assist|help|fulfil|generate|provide)",
    r"\b(?:request|content|prompt|response) (?:was|has been|is) (?:refused|blocked|flagged)",
    r"\blo siento\b|\bje suis désolée?\b|\bes tut mir leid\b|\bmi dispiace\b|\bdesculpe\b",
    r"抱歉|很遗憾|申し訳|죄송",
)
_KIND = (
    r"(?:(?:system )?prompts?|(?:system )?instructions?|versions?|candidates?|variants?|rewrites?|"
    r"(?:re)?wordings?|revisions?|paraphrases?|drafts?|alternatives?|proposals?|offspring|child)"
)
_NEW = (
    r"(?:new|improved?|revised|updated|rewritten|refined|better|optimi[sz]ed|final|proposed|"
    r"enhanced|alternative|paraphrased|mutated|modified|first|second|third)"
)
_META = any_of(
    r"^\W*(?:sure|certainly|of course|absolutely|okay|ok|great|got it|no problem|understood|"
    r"alright|happy to help|thank you|thanks)\b\s*[,.!:-]",
    rf"\b(?:here(?:'s| is| are| comes)|below (?:is|are)|this is|these are|the following is)\b"
    rf"[^.!?\n]{{0,60}}\b{_KIND}\b",
    rf"\bi(?:'ve| have)? (?:rewrote|rewritten|revised|improved|refined|created|wrote|written|"
    rf"updated|modified|made|added|drafted|came up|come up|propose|would suggest|suggest)\b"
    rf"[^.!?\n]{{0,60}}\b{_KIND}\b",
    rf"^\W*(?:(?:the|an?|my|our) )?(?:{_NEW} )*{_KIND}(?: ?(?:no\.?|number|#)? ?\d+)?\W{{0,4}}[:=]",
    rf"\b(?:this|the|my|our) (?:{_NEW}|above) {_KIND}\b",
    rf"\bthis {_KIND} (?:\w+ly )?(?:is|will|now|should|adds?|address\w*|fix\w*|improv\w*|"
    r"emphasi[sz]\w*|ensur\w*|clarif\w*|encourag\w*|mak\w+|keeps?|focus\w*|combin\w*|aims?)\b",
    rf"\b(?:original|previous|parent|current|old) {_KIND}\b",
    r"\b(?:the|these|those|given) (?:failed (?:trajectories|examples?|attempts?)|"
    r"failure (?:cases|modes|analysis))\b",
    r"^\W*(?:rationale|analysis|explanation|reasoning|root causes?|diagnosis|feedback)\b\W{0,4}:",
    r"\blet me know (?:if|whether)\b|\bhope (?:this|that|it) helps\b|\bfeel free to\b",
    r"\bwould you like me to\b|\bkey (?:changes|improvements)\b|\bchanges made\b",
)


def refusal(proposal: Proposal, _context: FirewallContext) -> str | None:
    """Finds a model that declines instead of writing; quoted refusals are only mentioned."""
    found = _REFUSAL.search(without_quotes(plain(proposal.text).strip().strip("\"'`")))
    return f"the text declines: {found.group()!r}" if found else None


def meta_talk(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds talk about the proposal itself: introductions, headings, comments on the change."""
    found = _META.search(plain(proposal.text).strip())
    if found and not any(found.group().lower() in parent.lower() for parent in context.parents):
        return f"the text talks about itself: {' '.join(found.group().split())!r}"
    return None
