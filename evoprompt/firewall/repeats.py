"""Rules about saying again what was said before."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Collection
from itertools import groupby

from evoprompt.firewall.core import FirewallContext
from evoprompt.firewall.known_texts import KnownTexts
from evoprompt.firewall.text import sentences, words
from evoprompt.types import Proposal

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
    """Finds texts that are, but for white space and case, a parent, a living or a rejected one.

    A single word may decide: "in 5 words" is not "in 50 words".
    """
    living = _indexed(context.living)
    for kind, known in (
        ("living", living),
        ("living", KnownTexts(one for one in context.parents if one not in living)),
        ("recently rejected", _indexed(context.rejected)),
    ):
        if known.same(proposal.text):
            return f"the text equals a {kind} candidate"
    return None


def _indexed(texts: Collection[str]) -> KnownTexts:
    return texts if isinstance(texts, KnownTexts) else KnownTexts(texts)
