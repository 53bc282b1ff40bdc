from __future__ import annotations

import pytest
from evoprompt_search_qa.methods.dialect import Dialect
from evoprompt_search_qa.methods.english import ENGLISH
from evoprompt_search_qa.methods.registry import METHODS, find_methods
from evoprompt_search_qa.methods.tiny import TINY
from evoprompt_search_qa.tiny.vocabulary import build_tokenizer

from evoprompt.errors import InputError


@pytest.mark.parametrize("dialect", [ENGLISH, TINY])
def test_every_method_has_an_instruction(dialect: Dialect) -> None:
    assert set(dialect.instructions) == set(METHODS)


def test_english_names_the_tags_that_a_method_reads() -> None:
    for name, instruction in ENGLISH.instructions.items():
        assert "<answer>" in instruction
        assert ("<search>" in instruction) == (name in ("search-o1", "search-r1"))


def test_the_tiny_policy_knows_every_word_it_is_told() -> None:
    known = build_tokenizer().get_vocab()
    question, query = "what is the mayor of jenburg ?", "the mayor of jenburg"
    assert TINY.query(question) == TINY.query(f"i need {query}") == query
    texts = (
        *TINY.instructions.values(),
        TINY.reader,
        TINY.given(query, "the mayor of jenburg is litol ."),
        TINY.task_for_reader(question, "", query),
        TINY.digest(query, "litol"),
    )
    assert [word for text in texts for word in text.split() if word not in known] == []


def test_an_unknown_method_suggests_the_nearest() -> None:
    assert find_methods(["rag", "direct", "rag"]) == ["rag", "direct"]
    with pytest.raises(InputError, match="did you mean 'search-o1'"):
        find_methods(["searcho1"])
