from __future__ import annotations

import random
from collections import Counter

import pytest
from evoprompt_sql.questions import Condition, ShopQuestion, draw, make_splits
from evoprompt_sql.shop import Shop

SHOP = Shop(7)
SIZES = {"test": 60, "validation": 40, "train": 100}
TEA = Condition("product_id", "products", "tea")
YEAR = Condition("year", "", "2021")


def test_a_question_in_words_and_in_sql() -> None:
    found = ShopQuestion("pieces", (TEA, YEAR))
    assert found.text == "How many pieces of tea in 2021 are there?"
    assert found.sql == (
        "SELECT SUM(quantity) FROM orders WHERE "
        "product_id = (SELECT id FROM products WHERE name = 'tea') AND year = 2021"
    )
    assert found.flat == "SELECT SUM(quantity) FROM orders WHERE product = 'tea' AND year = 2021"
    number = Condition("customer_id", "", "17")
    assert ShopQuestion("orders", (number,)).text == (
        "How many orders from customer number 17 are there?"
    )


def test_its_sql_finds_what_a_join_finds() -> None:
    joined = (
        "SELECT SUM(o.quantity) FROM orders o JOIN products p ON p.id = o.product_id "
        "WHERE p.name = 'tea' AND o.year = 2021"
    )
    assert SHOP.query(ShopQuestion("pieces", (TEA, YEAR)).sql) == SHOP.query(joined)


@pytest.mark.parametrize("tables", [1, 2, 3])
def test_questions_need_as_many_tables_as_they_should_and_have_an_answer(tables: int) -> None:
    rng = random.Random(tables)
    for _ in range(60):
        question = draw(rng, SHOP.query, tables)
        assert question.tables == tables
        assert question.sql.count("FROM") == tables
        assert int(SHOP.query(question.sql)) > 0
        if tables == 1:
            assert question.flat == question.sql


def test_splits_are_disjoint_repeatable_and_of_the_right_sizes() -> None:
    splits = make_splits(7, SHOP.query, SIZES)
    assert {name: len(found) for name, found in splits.items()} == SIZES
    assert splits == make_splits(7, Shop(7).query, SIZES)
    everything = [question for found in splits.values() for question in found]
    assert len({question.text for question in everything}) == len(everything)
    assert Counter(question.row["stratum"] for question in splits["train"]) == {
        "one table": 35,
        "two tables": 40,
        "three tables": 25,
    }
    for question in splits["test"]:
        assert SHOP.query(str(question.row["sql"])) == question.answers[0]


def test_test_questions_do_not_depend_on_the_other_sizes() -> None:
    fewer = make_splits(7, SHOP.query, {"test": 60, "train": 5})
    assert make_splits(7, SHOP.query, SIZES)["test"] == fewer["test"]
