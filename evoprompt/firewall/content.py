"""Rules about what a text says: refusals, talk about itself, leaks of training data, repeats."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from evoprompt.firewall.core import FirewallContext
from evoprompt.firewall.words import sentences, similarity, without_quotes, words
from evoprompt.types import Proposal

NEAR = 0.97
"""Texts that share more than this part of their words in order are near duplicates ..."""
SENTENCE = 0.7
"""... unless one of their sentences shares less than this with its counterpart."""
COPIED_WORDS = 7
"""Consecutive words of a training question that count as copied."""

_REFUSAL = re.compile(
    r"\b(?:i(?:['’]?m| am)(?: (?:so|very|truly|really))? (?:sorry|afraid|unable|not able|not allowed)\b"
    r"|i (?:apologi[sz]e|regret)\b"
    r"|i (?:can(?:['’]?t|not| not)|could(?:n['’]?t| not)|won['’]?t|will not|must decline|"
    r"do(?:n['’]?t| not) (?:feel comfortable|have (?:enough|access|the)))\b"
    r"|(?:unfortunately|regrettably),? (?:i|we|this|your|the)\b"
    r"|as an? (?:ai|artificial intelligence|(?:large )?language model)\b"
    r"|(?:against|violates?) (?:my|our|the) (?:guidelines|polic(?:y|ies)|programming)"
    r"|(?:my apologies|sorry)[,.!:—-]|we are unable to|unable to (?:comply|assist|help|fulfil)"
    r"|(?:request|content|prompt) (?:was|has been|is) (?:refused|blocked|flagged|filtered)"
    r"|lo siento|je suis désolée?|es tut mir leid|mi dispiace|desculpe|抱歉|很遗憾|申し訳|죄송)",
    re.IGNORECASE,
)
_INTRODUCTION = re.compile(
    r"^\W*(?:sure|certainly|of course|absolutely|okay|ok|great|got it|no problem|understood|"
    r"alright|happy to help|thank you|thanks)\b\s*[,.!:—–-]",
    re.IGNORECASE,
)
_META = re.compile(
    r"\b(?:here(?:['’]s| is| are| comes)|below (?:is|are)|this is|these are|the following is|"
    r"i(?:['’]ve| have)? (?:rewr(?:ote|itten)|revised|improved|refined|created|written|updated|"
    r"modified|made|added|drafted|came up|come up|propose|suggest|would suggest))\b"
    r"[^.!?\n]{0,60}\b(?:instructions?|prompts?|versions?|candidates?|variants?|rewrites?|wording|"
    r"rewording|revisions?|paraphrases?|drafts?|alternatives?)\b"
    r"|^\W*(?:(?:the |an? |my |our )?(?:new|improved|revised|updated|rewritten|refined|better|"
    r"optimi[sz]ed|final|proposed|enhanced|alternative|paraphrased|mutated|first|second|third)\s+)*"
    r"(?:instructions?|prompts?|system prompt|candidates?|variants?|versions?|proposals?|options?|"
    r"paraphrases?|rewrites?|offspring|child)(?:\s*(?:no\.?\s*|#)?\d+)?\W*[:=]"
    r"|\b(?:this|the|my|our) (?:new|improved|revised|updated|rewritten|refined|above|proposed|"
    r"modified|mutated|better|optimi[sz]ed) (?:instruction|prompt|version|candidate|wording)\b"
    r"|\bthis (?:instruction|prompt|version|candidate|revision|rewrite|variant) "
    r"(?:\w+ly )?(?:is|will|now|should|adds?|address\w*|fix\w*|improv\w*|emphasi[sz]\w*|"
    r"ensur\w*|clarif\w*|encourag\w*|mak\w+|keeps?|focus\w*|combin\w*|aims?)\b"
    r"|\b(?:original|previous|parent|current|old) (?:instruction|prompt|version)\b"
    r"|\b(?:the|these|those|given) (?:failures?|failed (?:trajector\w+|examples?|attempts?)|"
    r"failure (?:cases|modes|analysis))\b"
    r"|\blet me know\b|\bhope (?:this|that|it) helps\b|\bfeel free to\b"
    r"|\bwould you like me\b|\bkey (?:changes|improvements)\b|\bchanges made\b",
    re.IGNORECASE | re.MULTILINE,
)
_HEADER = re.compile(
    r"^\W*(?:rationale|analysis|explanation|reasoning|root causes?|causes?|diagnosis|feedback)\b\W*:",
    re.IGNORECASE | re.MULTILINE,
)
_EVERYDAY = frozenset(
    "yes no none true false both neither same different first second third last next one two "
    "three four five six seven eight nine ten zero answer question search query evidence fact "
    "facts step steps word words name names date dates year years month day number numbers "
    "person people place city country state river film book song band team author actor "
    "director king queen father mother husband wife child english american before after more "
    "less most least unknown other another single short long time times once twice page "
    "passage document information reason result entity title list item male female man woman "
    "left right start final water light head hand work world life point line part case "
    "language order form story source text letter what when where which with from that this".split()
)


def refusal(proposal: Proposal, _context: FirewallContext) -> str | None:
    """Finds a model that declines instead of writing; quoted refusals are only mentioned."""
    text = proposal.text.strip().strip("\"'“”`")
    found = _REFUSAL.search(without_quotes(text))
    return f"the text declines: {found.group()!r}" if found else None


def meta_talk(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds talk about the proposal itself: introductions, headings, comments on the change."""
    text = proposal.text.strip()
    for pattern in (_INTRODUCTION, _META, _HEADER):
        found = pattern.search(text)
        if found and not any(found.group().lower() in parent.lower() for parent in context.parents):
            return f"the text talks about itself: {' '.join(found.group().split())!r}"
    return None


def leaked_answer(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds gold answers of training questions that no parent has.

    Everyday words, numbers below 1000 and answers under four characters are left out: an
    instruction may say "yes", "two searches" or "the last year" without giving anything away.
    """
    said = f" {' '.join(words(proposal.text))} "
    known = [f" {' '.join(words(parent))} " for parent in (*context.parents, *context.required)]
    for answer in context.answers:
        plain = words(answer)
        gold = " ".join(plain)
        if len(gold) < 4 or all(word in _EVERYDAY or len(word) < 3 for word in plain):
            continue
        if f" {gold} " in said and not any(f" {gold} " in parent for parent in known):
            return f"the text holds the gold answer {answer!r} of a training question"
    return None


def copied_question(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds training questions of four words or more, or seven consecutive words of one."""
    said = words(proposal.text)
    known = set().union(*(_ngrams(words(parent)) for parent in context.parents))
    ours = _ngrams(said) - known
    whole = f" {' '.join(said)} "
    parents = [f" {' '.join(words(parent))} " for parent in context.parents]
    for question in context.questions:
        asked = words(question)
        if len(asked) < 4:
            continue
        copied = next((part for part in _in_order(asked) if part in ours), None)
        text = f" {' '.join(asked)} "
        if copied is None and text in whole and not any(text in parent for parent in parents):
            copied = tuple(asked)
        if copied is not None:
            return f"the text copies {' '.join(copied)!r} from a training question"
    return None


def _in_order(spoken: list[str]) -> Iterator[tuple[str, ...]]:
    return (
        tuple(spoken[start : start + COPIED_WORDS])
        for start in range(len(spoken) - COPIED_WORDS + 1)
    )


def _ngrams(spoken: list[str]) -> set[tuple[str, ...]]:
    return set(_in_order(spoken))


def duplicate(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds texts that are, but for a few words, one that lives or was rejected lately.

    Another sentence, or the same ones in another order, is a real difference.
    """
    text = proposal.text
    for kind, others in (("living", context.living), ("recently rejected", context.rejected)):
        for other in others:
            if words(text) == words(other):
                return f"the text equals a {kind} candidate"
            if nearly_same(text, other):
                return f"the text differs from a {kind} candidate in hardly a word"
    return None


def nearly_same(left: str, right: str, near: float = NEAR) -> bool:
    """Whether two texts say the same sentences in the same order in almost the same words."""
    left_parts, right_parts = sentences(left), sentences(right)
    if len(left_parts) != len(right_parts):
        return False
    pairs = list(zip(left_parts, right_parts, strict=True))
    return all(similarity(one, two) >= SENTENCE for one, two in pairs) and _shared(pairs) > near


def _shared(pairs: Sequence[tuple[list[str], list[str]]]) -> float:
    lengths = [len(one) + len(two) for one, two in pairs]
    if not lengths:
        return 1.0
    common = sum(
        similarity(one, two) * length for (one, two), length in zip(pairs, lengths, strict=True)
    )
    return common / sum(lengths)
