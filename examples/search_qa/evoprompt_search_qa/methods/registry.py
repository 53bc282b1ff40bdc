"""The methods by name, in the order of the paper's Table 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evoprompt.errors import InputError
from evoprompt.validation import nearest
from evoprompt_search_qa.methods.closed_book import closed_book
from evoprompt_search_qa.methods.ircot import ircot
from evoprompt_search_qa.methods.play import Method
from evoprompt_search_qa.methods.rag import rag
from evoprompt_search_qa.methods.search_o1 import search_o1
from evoprompt_search_qa.methods.search_r1 import search_r1


@dataclass(frozen=True, slots=True)
class Entry:
    """A method with its title in tables and whether it searches."""

    title: str
    play: Method
    searches: bool = True


METHODS: Mapping[str, Entry] = {
    "direct": Entry("Direct", closed_book, searches=False),
    "cot": Entry("Chain of thought", closed_book, searches=False),
    "rag": Entry("RAG", rag),
    "ircot": Entry("IRCoT", ircot),
    "search-o1": Entry("Search-o1", search_o1),
    "search-r1": Entry("Search-R1 agent", search_r1),
}


def find_methods(names: Sequence[str]) -> list[str]:
    """The names, each once.

    Raises:
        InputError: there is no method of a name.
    """
    for name in names:
        if name not in METHODS:
            raise InputError(
                f"method is {name!r}; required: one of {', '.join(METHODS)}{nearest(name, METHODS)}"
            )
    return list(dict.fromkeys(names))
