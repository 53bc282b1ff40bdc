"""Synthetic knowledge bases: the same invented names everywhere, other facts in every world.

A policy that was trained in one world cannot answer in another from memory; it has to search.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

RELATIONS: Mapping[str, tuple[str, str]] = {
    "birthplace": ("person", "city"),
    "employer": ("person", "company"),
    "school": ("person", "school"),
    "principal": ("school", "person"),
    "founder": ("company", "person"),
    "headquarters": ("company", "city"),
    "mayor": ("city", "person"),
    "country": ("city", "country"),
    "river": ("city", "river"),
    "capital": ("country", "city"),
    "president": ("country", "person"),
    "director": ("film", "person"),
    "author": ("novel", "person"),
}
"""Type of subject and of object, by relation."""

_NAMES_SEED = 20260101
_COUNTS = {
    "person": 200,
    "city": 60,
    "company": 50,
    "school": 40,
    "country": 20,
    "river": 30,
    "film": 50,
    "novel": 50,
}
_ENDINGS = {
    "person": ("a", "o", "is", "en", "us", "ira", "eth", "ol"),
    "city": ("burg", "stad", "ham", "port", "wick"),
    "company": ("corp", "labs", "bank", "motors"),
    "school": ("academy", "college", "hall"),
    "country": ("ia", "land", "mark"),
    "river": ("beck", "flow", "water"),
    "film": ("dawn", "night", "storm"),
    "novel": ("song", "tale", "letters"),
}
_HEADS = (
    *("b", "br", "d", "dr", "f", "g", "gr", "h", "j", "k", "kl"),
    *("l", "m", "n", "p", "r", "s", "st", "t", "v", "w", "z"),
)
_VOWELS = ["a", "e", "i", "o", "u", "ai", "ea", "ou"]
_TAILS = ["b", "d", "g", "k", "l", "m", "n", "r", "s", "t", "v"]


@cache
def entities() -> Mapping[str, tuple[str, ...]]:
    """Return all invented one-word names by type, which are equal in every world."""
    rng = random.Random(_NAMES_SEED)
    used_names: set[str] = set()
    names: dict[str, tuple[str, ...]] = {}
    for kind, count in _COUNTS.items():
        new_names: list[str] = []
        while len(new_names) < count:
            stem = rng.choice(_HEADS) + rng.choice(_VOWELS) + rng.choice(_TAILS)
            name = stem + rng.choice(_ENDINGS[kind])
            if name not in used_names:
                used_names.add(name)
                new_names.append(name)
        names[kind] = tuple(new_names)
    return names


@cache
def entity_types() -> Mapping[str, str]:
    """Return the type of every name."""
    return {name: kind for kind, names in entities().items() for name in names}


@cache
def relations_of(kind: str) -> tuple[str, ...]:
    """Return the relations with a subject of type ``kind``; empty for a type that ends chains."""
    return tuple(relation for relation, (subject, _) in RELATIONS.items() if subject == kind)


@dataclass(frozen=True)
class World:
    """Knowledge base: a value for every relation of every entity.

    Attributes:
        seed: of the facts.
        facts: object by (relation, subject).
        passages: one sentence a fact, in random order.
    """

    seed: int
    facts: Mapping[tuple[str, str], str]
    passages: tuple[str, ...]

    @classmethod
    def random(cls, seed: int) -> World:
        """Return the world of ``seed``."""
        rng = random.Random(seed)
        facts: dict[tuple[str, str], str] = {}
        for relation, (subject_type, object_type) in RELATIONS.items():
            for subject in entities()[subject_type]:
                candidates = [name for name in entities()[object_type] if name != subject]
                facts[relation, subject] = rng.choice(candidates)
        passages = [
            f"the {relation} of {subject} is {value} ."
            for (relation, subject), value in facts.items()
        ]
        rng.shuffle(passages)
        return cls(seed, facts, tuple(passages))
