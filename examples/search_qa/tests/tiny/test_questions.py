from __future__ import annotations

import random
from collections import Counter
from itertools import combinations

import pytest
from evoprompt_search_qa.tiny.questions import draw, make_splits
from evoprompt_search_qa.tiny.world import World

WORLD = World.random(11)


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_the_chain_of_facts_leads_to_the_answer(hops: int) -> None:
    rng = random.Random(hops)
    for _ in range(50):
        question = draw(WORLD, hops, rng)
        found = question.path[0]
        for relation in question.relations:
            found = WORLD.facts[relation, found]
        assert found == question.answer
        assert question.hops == hops
        assert len(set(question.path)) == hops + 1


def test_a_question_reads_from_the_last_relation_to_the_first() -> None:
    question = draw(WORLD, 2, random.Random(0))
    first, second = question.relations
    assert question.text == f"what is the {second} of the {first} of {question.path[0]} ?"


def test_no_question_is_in_two_splits() -> None:
    splits = make_splits(WORLD, train=200, validation=100, test=100)
    texts = {name: {question.text for question in split} for name, split in splits.items()}
    assert {name: len(found) for name, found in texts.items()} == {
        "train": 200,
        "validation": 100,
        "test": 100,
    }
    assert all(not a & b for a, b in combinations(texts.values(), 2))
    ids = [question.id for split in splits.values() for question in split]
    assert len(set(ids)) == len(ids)


def test_every_split_has_the_announced_share_of_hops() -> None:
    for split in make_splits(WORLD, train=200, validation=50, test=100).values():
        counts = Counter(question.row["hops"] for question in split)
        assert [counts[hops] / len(split) for hops in (1, 2, 3)] == [0.4, 0.4, 0.2]


def test_test_questions_do_not_depend_on_the_size_of_the_other_splits() -> None:
    few, many = make_splits(WORLD, 20, 10, 30), make_splits(WORLD, 100, 50, 30)
    assert few["test"] == many["test"]
