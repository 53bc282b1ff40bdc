"""Rules about training data that must not become part of an instruction."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from evoprompt.firewall.core import FirewallContext
from evoprompt.firewall.text import known_words, word_set, words
from evoprompt.types import Proposal

COPIED_WORDS = 7
"""Consecutive words of a training question that count as copied."""

_EVERYDAY = word_set(
    "a an the and or of in for to is it yes no none true false both neither same different",
    "unknown other another what when where which with from that this english american",
    "first second third last next final left right before after more less most least single",
    "zero one two three four five six seven eight nine ten once twice short long time times",
    "answer question search query evidence fact facts step steps word words name names title",
    "date dates year years month day number numbers page passage document information list",
    "item text source letter line part order form case point result reason language entity",
    "person people man woman male female child king queen father mother husband wife author",
    "actor director band team film book song story place city country state river world",
    "water light head hand work life start",
)
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]{3,}")


def leaked_answer(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds gold answers of training questions that no parent has.

    Everyday words and answers under four characters are left out: an instruction may say "yes",
    "two searches" or "the last year" without giving anything away. Three characters are enough in
    scripts that write several words, or a word and its endings, without a space.
    """
    said = words(proposal.text)
    spaced, dense = _joined(said), "".join(said)
    known = [known_words(parent) for parent in (*context.parents, *context.required)]
    for answer in context.answers:
        gold = known_words(answer)
        join = "".join if _UNSPACED.fullmatch("".join(gold)) else _joined
        if join is _joined and (
            len("".join(gold)) < 4 or all(word in _EVERYDAY or len(word) < 3 for word in gold)
        ):
            continue
        if join(gold) in (spaced if join is _joined else dense) and not any(
            join(gold) in join(parent) for parent in known
        ):
            return f"the text holds the gold answer {answer!r} of a training question"
    return None


def copied_question(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds training questions of four words or more, or seven consecutive words of one."""
    said = words(proposal.text)
    ours = set(_ngrams(said))
    for parent in context.parents:
        ours.difference_update(_ngrams(known_words(parent)))
    # A question that shares fewer words than any of these parts has need not be gone through.
    vocabulary = {word for part in ours for word in part}
    fewest = min((len(set(part)) for part in ours), default=1)
    spoken = _joined(said)
    for question in context.questions:
        asked = known_words(question)
        copied: tuple[str, ...] = ()
        # Most have none of the words, and that is known without a set of those that are shared.
        if not vocabulary.isdisjoint(asked) and len(vocabulary.intersection(asked)) >= fewest:
            copied = next((part for part in _ngrams(asked) if part in ours), ())
        if not copied and 4 <= len(asked) < COPIED_WORDS and _joined(asked) in spoken:
            copied = tuple(asked)
        if copied:
            return f"the text copies {' '.join(copied)!r} from a training question"
    return None


def _joined(spoken: Sequence[str]) -> str:
    return f" {' '.join(spoken)} "


def _ngrams(spoken: Sequence[str]) -> Iterator[tuple[str, ...]]:
    starts = range(len(spoken) - COPIED_WORDS + 1)
    return (tuple(spoken[start : start + COPIED_WORDS]) for start in starts)
