"""Rules about saying again what was said before."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

from evoprompt.firewall.core import FirewallContext
from evoprompt.firewall.words import sentences, similarity, words
from evoprompt.types import Proposal

NEAR = 0.93
"""Texts that share more than this part of their words are near duplicates ..."""
SENTENCE = 0.8
"""... unless one of their sentences shares less than this part with its counterpart."""


def repetitive(proposal: Proposal, _context: FirewallContext) -> str | None:
    """Finds a model that got stuck: a word five times in a row, a sentence four times."""
    run = next((word for word, same in groupby(words(proposal.text)) if len([*same]) >= 5), None)
    if run is not None:
        return f"the word {run!r} is repeated without end"
    for sentence, count in Counter(map(tuple, sentences(proposal.text))).items():
        if count >= 4:
            return f"the sentence {' '.join(sentence)!r} is repeated {count} times"
    return None


def duplicate(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds texts that are, but for a few words, one that lives or was rejected lately.

    Another sentence, or the same ones in another order, is a real difference.
    """
    for kind, others in (("living", context.living), ("recently rejected", context.rejected)):
        for other in others:
            if words(proposal.text) == words(other):
                return f"the text equals a {kind} candidate"
            if nearly_same(proposal.text, other):
                return f"the text differs from a {kind} candidate in hardly a word"
    return None


def nearly_same(left: str, right: str) -> bool:
    """Whether two texts say the same sentences in the same order in almost the same words."""
    ours, theirs = sentences(left), sentences(right)
    if len(ours) != len(theirs):
        return False
    common = total = 0.0
    for one, two in zip(ours, theirs, strict=True):
        alike = similarity(one, two)
        if alike < SENTENCE:
            return False
        common += alike * (len(one) + len(two))
        total += len(one) + len(two)
    return common > NEAR * total
