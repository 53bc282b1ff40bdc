"""How changes of an instruction, sentence by sentence, and times are told."""

from __future__ import annotations

from dataclasses import dataclass

from evoprompt.text import sentences


@dataclass(frozen=True, slots=True)
class Change:
    """From a parent's text to its child's.

    Attributes:
        added: sentences only the child has, in its order.
        dropped: sentences only the parent had, in its order.
    """

    added: tuple[str, ...]
    dropped: tuple[str, ...]


def duration(seconds: float) -> str:
    """A time in the unit that a person would choose.

    >>> duration(0.4), duration(95), duration(600), duration(30_000)
    ('0.4 s', '95 s', '10 minutes', '8.3 hours')
    """
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def change(parent: str, child: str) -> Change:
    """The sentences that came and went.

    >>> change("Think first. Be polite.", "Think first. Think twice.")
    Change(added=('Think twice.',), dropped=('Be polite.',))
    """
    before, after = sentences(parent), sentences(child)
    return Change(
        tuple(sentence for sentence in after if sentence not in before),
        tuple(sentence for sentence in before if sentence not in after),
    )
