"""The texts that a proposal must differ from, arranged so that none of them has to be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator


class KnownTexts(Collection[str]):
    """A set of texts that finds whether a given one is among them, but for white space and case.

    Args:
        texts: the first ones.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: dict[str, str] = {}
        self._forms: Counter[str] = Counter()
        self.keep(texts)

    def __len__(self) -> int:
        return len(self._texts)

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __contains__(self, text: object) -> bool:
        return text in self._texts

    def keep(self, texts: Iterable[str]) -> None:
        """Holds exactly ``texts`` from now on."""
        wanted = dict.fromkeys(texts)
        for text in [text for text in self._texts if text not in wanted]:
            form = self._texts.pop(text)
            self._forms[form] -= 1
            if not self._forms[form]:
                del self._forms[form]
        for text in wanted:
            self.add(text)

    def add(self, text: str) -> None:
        """Holds ``text`` too."""
        if text not in self:
            self._texts[text] = form = _form(text)
            self._forms[form] += 1

    def same(self, text: str) -> bool:
        """Whether one of them is ``text``, but for white space and case."""
        return _form(text) in self._forms


def _form(text: str) -> str:
    return " ".join(text.split()).casefold()
