"""Rules about saying again what was said before."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from evoprompt.firewall.core import FirewallContext
from evoprompt.firewall.text import (
    chunks,
    known_sentences,
    known_words,
    sentences,
    similarity,
    words,
)
from evoprompt.types import Proposal

NEAR = 0.93
"""Texts that share more than this part of their words are near duplicates ..."""
SENTENCE = 0.8
"""... unless one of their sentences shares less than this part with its counterpart."""
DENSITY = 0.22
"""A text that zlib shrinks to less than this part says the same over and over."""
_CYCLE = 8  # sentences among which two of three have been said before
_SHORT = 240  # bytes; zlib needs some text to tell
_RUN = re.compile(r"([^\s\-=_*#~.])\1{19}|([\-=_*#~.])\2{99}")


def repetitive(proposal: Proposal, _context: FirewallContext) -> str | None:
    """Finds a model that got stuck: on a word, a sentence, a character, or a longer phrase."""
    text = proposal.text
    run = next((word for word, same in groupby(words(text)) if len([*same]) >= 5), None)
    if run is not None:
        return f"the word {run!r} is repeated without end"
    spoken = [*map(tuple, sentences(text))]
    counts = Counter(spoken)  # a form shown in several examples is repeated, but not in a row
    in_a_row = {sentence for sentence, same in groupby(spoken) if len([*same]) >= 4}
    for sentence, count in counts.items():
        stuck = count >= 8 or sentence in in_a_row
        if stuck and any(not word.isdecimal() for word in sentence):
            return f"the sentence {' '.join(sentence)!r} is repeated {count} times"
    said = [tuple(word for word in one if not word.isdecimal()) for one in spoken]
    said = [one for one in said if one]
    if len(said) >= _CYCLE and len(set(said)) * 3 <= len(said):
        return "the text goes round in the same sentences"
    line = _RUN.search(text)
    if line is not None:
        return f"the character {line.group()[0]!r} is repeated without end"
    given = text.encode("utf-8", "replace")
    if len(given) >= _SHORT and len(zlib.compress(given, 9)) < DENSITY * len(given):
        return "the text repeats the same phrases without end"
    return None


def duplicate(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds texts that are, but for a few words, a parent, or one that lives or was rejected.

    Another sentence, or the same ones in another order, is a real difference.
    """
    said, ours = words(proposal.text), sentences(proposal.text)
    known = [*context.living, *(text for text in context.parents if text not in context.living)]
    for kind, others in (("living", known), ("recently rejected", context.rejected)):
        for other in others:
            if said == known_words(other):
                return f"the text equals a {kind} candidate"
            if nearly_same(ours, known_sentences(other)):
                return f"the text differs from a {kind} candidate in hardly a word"
    return None


def nearly_same(ours: Sequence[list[str]], theirs: Sequence[list[str]]) -> bool:
    """Whether two texts say the same sentences in the same order in almost the same words."""
    if len(ours) != len(theirs):
        return False
    common = total = 0.0
    for one, two in zip(ours, theirs, strict=True):
        size = len(one) + len(two)
        if 2 * min(len(one), len(two)) < SENTENCE * size:
            return False
        pieces = zip(chunks(one), chunks(two), strict=False)
        alike = sum(similarity(a, b) * (len(a) + len(b)) for a, b in pieces) / size
        if alike < SENTENCE:
            return False
        common += alike * size
        total += size
    return common > NEAR * total
