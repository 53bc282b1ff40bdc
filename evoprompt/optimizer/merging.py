"""Merging: what two lines of descent added to their common ancestor, in one candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evoprompt.experiments.report.wording import change, sentences
from evoprompt.types import Candidate


def nearest_ancestor(
    one: Candidate, other: Candidate, born: Mapping[str, Candidate]
) -> Candidate | None:
    """The latest candidate that both descend from; None if there is none, or one is the other's.

    Args:
        one: a candidate.
        other: another one.
        born: all candidates by their ids.
    """
    mine, theirs = lineage(one, born), lineage(other, born)
    if one.id in theirs or other.id in mine:
        return None
    shared = [name for name in mine if name in theirs]
    return born[shared[0]] if shared else None


def lineage(candidate: Candidate, born: Mapping[str, Candidate]) -> dict[str, None]:
    """The ids of ``candidate`` and of all that it descends from, the nearest first."""
    found = {candidate.id: None}
    rim: Sequence[str] = candidate.parents
    while rim:
        fresh = [name for name in dict.fromkeys(rim) if name not in found]
        found.update(dict.fromkeys(fresh))
        rim = [parent for name in fresh for parent in born[name].parents]
    return found


def merged(ancestor: Candidate, one: Candidate, other: Candidate) -> dict[str, str]:
    """The texts of ``one`` with what ``other`` changed since ``ancestor``.

    A component that only one of them changed is that one's. Where both did, ``other``'s new
    sentences follow those of ``one``, and what it dropped is dropped.
    """
    texts = {}
    for name, before in ancestor.components.items():
        mine, theirs = one.components[name], other.components[name]
        if theirs == before or mine == theirs:
            texts[name] = mine
        elif mine == before:
            texts[name] = theirs
        else:
            changed = change(before, theirs)
            known = set(sentences(mine))
            added = [sentence for sentence in changed.added if sentence not in known]
            for sentence in changed.dropped:
                mine = mine.replace(sentence, "")
            texts[name] = " ".join([mine.strip(), *added])
    return texts
