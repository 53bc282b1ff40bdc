"""How a short answer is judged: by the words that it shares with a right one (SQuAD)."""

from __future__ import annotations

from collections.abc import Sequence

from evoprompt_search_qa.scoring import normalise, overlap


def f1(said: str, answers: Sequence[str]) -> float:
    """Harmonic mean of word precision and recall against the best answer, in [0, 1].

    >>> f1("Paris", ["Paris, France", "the city of Paris"])
    0.6666666666666666
    """
    return max((overlap(said, one) for one in answers), default=0.0)


def exact(said: str, answers: Sequence[str]) -> float:
    """1.0 if the answer is a right one, after normalisation."""
    return float(normalise(said) in map(normalise, answers))


def contained(said: str, answers: Sequence[str]) -> float:
    """1.0 if a right answer stands in it as whole words, after normalisation.

    >>> contained("It is in Rome.", ["Rome"]), contained("Romeo", ["Rome"])
    (1.0, 0.0)
    """
    padded = f" {normalise(said)} "
    return float(any(f" {one} " in padded for one in map(normalise, answers) if one))
