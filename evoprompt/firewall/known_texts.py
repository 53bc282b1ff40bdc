"""The texts that a proposal must differ from, arranged so that few of them have to be read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from evoprompt.firewall.text import chunks, sentences, similarity, words

NEAR = 0.93
"""Texts that share more than this part of their words are near duplicates ..."""
SENTENCE = 0.8
"""... unless one of their sentences shares less than this part with its counterpart."""

_READ = 128  # texts that are looked up, and soon added or removed

Place = tuple[int, int, str]
"""How many sentences a text has, the index of one of them, and a word in it."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A text as it is looked for: its sentences, all its words, and where they stand."""

    sentences: list[list[str]]
    words: tuple[str, ...]
    bag: frozenset[str]
    places: set[Place]


class KnownTexts(Collection[str]):
    """A set of texts that finds those which are, but for a few words, a given one.

    Looking one up costs about the same however many there are, and so does adding one.

    Args:
        texts: the first ones.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._known: dict[str, _Known] = {}
        self._said: Counter[tuple[str, ...]] = Counter()
        self._places: defaultdict[Place, set[str]] = defaultdict(set)
        self.keep(texts)

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __contains__(self, text: object) -> bool:
        return text in self._known

    def keep(self, texts: Iterable[str]) -> None:
        """Holds exactly ``texts`` from now on."""
        wanted = dict.fromkeys(texts)
        for text in [text for text in self._known if text not in wanted]:
            self._remove(text)
        for text in wanted:
            if text not in self._known:
                self.add(text)

    def add(self, text: str) -> None:
        """Holds ``text`` too."""
        if text in self:
            return
        known = self._known[text] = _read(text)
        self._said[known.words] += 1
        for place in known.places:
            self._places[place].add(text)

    def _remove(self, text: str) -> None:
        known = self._known.pop(text)
        self._said[known.words] -= 1
        if not self._said[known.words]:
            del self._said[known.words]
        for place in known.places:
            others = self._places[place]
            others.discard(text)
            if not others:
                del self._places[place]

    def same(self, text: str) -> bool:
        """Whether one of them has the same words in the same order."""
        return _read(text).words in self._said

    def nearly_same(self, text: str) -> bool:
        """Whether one of them says the same sentences in almost the same words."""
        if not self._known:
            return False
        read = _read(text)
        ours = read.sentences
        alike: set[str] | None = None
        for index, sentence in enumerate(ours):
            found = self._sharing(len(ours), index, sentence)
            alike = found if alike is None else alike & found
            if not alike:
                return False
        return any(
            nearly_same(ours, self._known[other].sentences)
            for other in alike or ()
            if _may_be_near(read.bag, self._known[other].bag)
        )

    def _sharing(self, count: int, index: int, sentence: Sequence[str]) -> set[str]:
        """Texts whose sentence of this index may be near enough to ``sentence``.

        A counterpart of length ``b`` that shares ``SENTENCE`` of the words with ours of length
        ``a`` is no shorter than ``a / (2 / SENTENCE - 1)`` and so lacks at most a known number of
        our words: of any that are more than that it has at least one. The rarest will do.
        """
        shortest = len(sentence) / (2 / SENTENCE - 1)
        lacking = len(sentence) - SENTENCE * (len(sentence) + shortest) / 2
        occurrences = Counter(sentence)
        postings = {word: self._places.get((count, index, word), set()) for word in occurrences}
        found: set[str] = set()
        taken = 0
        for word in sorted(postings, key=lambda word: len(postings[word])):
            found |= postings[word]
            taken += occurrences[word]
            if taken > lacking:
                break
        return found


@lru_cache(maxsize=_READ)
def _read(text: str) -> _Known:
    found = sentences(text)
    return _Known(found, tuple(words(text)), _bag(found), _places(found))


def _places(found: Sequence[Sequence[str]]) -> set[Place]:
    return {(len(found), index, word) for index, one in enumerate(found) for word in one}


def _bag(found: Sequence[Sequence[str]]) -> frozenset[str]:
    """All words, those that come again told apart by a number."""
    counts: Counter[str] = Counter()
    bag: set[str] = set()
    for word in (word for sentence in found for word in sentence):
        bag.add(f"{word} {counts[word]}" if counts[word] else word)
        counts[word] += 1
    return frozenset(bag)


def _may_be_near(ours: frozenset[str], theirs: frozenset[str]) -> bool:
    """False where two texts do not share enough words in any order; fast, for a first look.

    Texts built of the same sentences, or in the same few words, all share their rare words.
    """
    return 2 * len(ours & theirs) > NEAR * (len(ours) + len(theirs))


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
