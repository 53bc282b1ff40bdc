from __future__ import annotations

import random

from evoprompt_search_qa.tiny.questions import draw
from evoprompt_search_qa.tiny.retriever import Retriever
from evoprompt_search_qa.tiny.world import World

WORLD = World.random(11)
RETRIEVER = Retriever(WORLD.passages)


def test_a_single_fact_is_found_first() -> None:
    for (relation, subject), value in list(WORLD.facts.items())[::25]:
        results = RETRIEVER.search(f"the {relation} of {subject}")
        assert results[0] == f"the {relation} of {subject} is {value} ."
        assert len(results) == 3


def test_a_whole_nested_question_does_not_find_its_answer() -> None:
    rng = random.Random(0)
    questions = [draw(WORLD, 2, rng) for _ in range(50)]
    found = [q.answer in " ".join(RETRIEVER.search(q.description)) for q in questions]
    assert sum(found) < 3


def test_unknown_words_find_nothing() -> None:
    assert RETRIEVER.search("zzz") == RETRIEVER.search("") == ()


def test_equal_scores_keep_the_order_of_the_passages() -> None:
    retriever = Retriever(["x a", "x b", "x c", "x d"], top_k=2)
    assert retriever.search("x") == ("x a", "x b")
