"""How changes of an instruction are told, sentence by sentence."""

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
