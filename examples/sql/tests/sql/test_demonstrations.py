from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence

import pytest
from evoprompt_sql.bank import CLOSING, GOOD_IDEAS, OPENING, SEED_IDEAS
from evoprompt_sql.demonstrations import MOST_CALLS, demonstrate
from evoprompt_sql.questions import ShopQuestion, draw
from evoprompt_sql.shop import Shop

SHOP = Shop(1001)
CAREFUL = [*GOOD_IDEAS, "copy", "stop"]


def episode(
    question: ShopQuestion, ideas: Sequence[str], seed: int, *, careful: bool = False
) -> list[str]:
    """What a demonstrator says."""
    script = demonstrate(question, ideas, random.Random(seed), careful=careful)
    said = [next(script)]
    try:
        while True:
            sql = said[-1].removeprefix(OPENING).removesuffix(CLOSING)
            said.append(script.send(asked(sql)))
    except StopIteration:
        return said


def asked(sql: str) -> str:
    try:
        return SHOP.query(sql)
    except sqlite3.Error as error:
        return f"Error: {error}"


def questions(count: int, tables: int) -> list[ShopQuestion]:
    rng = random.Random(4)
    return [draw(rng, SHOP.query, tables) for _ in range(count)]


def solved(ideas: Sequence[str], tables: int, *, careful: bool = False) -> float:
    found = [
        episode(question, ideas, seed, careful=careful)[-1] == SHOP.query(question.sql)
        for seed, question in enumerate(questions(200, tables))
    ]
    return sum(found) / len(found)


def test_without_a_sentence_that_asks_for_it_nobody_looks_up_an_id() -> None:
    for seed, question in enumerate(questions(200, 3)):
        assert len(episode(question, [*SEED_IDEAS, "check", "query-first"], seed)) <= 2


def test_good_sentences_make_demonstrators_good() -> None:
    assert solved(CAREFUL, 3) > 0.75
    assert solved(SEED_IDEAS, 3) == 0.0
    assert solved(SEED_IDEAS, 1) == pytest.approx(0.3, abs=0.12)


@pytest.mark.parametrize("tables", [1, 2, 3])
def test_a_careful_demonstrator_who_looks_ids_up_is_always_right(tables: int) -> None:
    ideas = ["one-table", "look-up", "follow", *["number-only"] * 3]
    assert solved(ideas, tables, careful=True) > 0.97


def test_needless_queries_use_up_all_calls() -> None:
    question = questions(1, 3)[0]
    said = [len(episode(question, ["exhaust", "look-up", "follow"], seed)) for seed in range(20)]
    assert max(said) == MOST_CALLS + 1


def test_a_wrong_description_misleads_until_a_right_sentence_is_added() -> None:
    question = questions(1, 3)[0]

    def steps(*description: str) -> float:
        """Share of demonstrators with good instructions that look ids up."""
        scripts = [
            demonstrate(question, CAREFUL, random.Random(seed), description=description)
            for seed in range(100)
        ]
        return sum("SELECT id FROM" in next(script) for script in scripts) / 100

    assert steps("names-in-orders", "errors") < 0.1
    assert steps("names-in-orders", "ids-in-orders") > 0.85
    assert steps("ids-in-orders") > 0.85
    assert steps() > 0.85


def test_a_description_alone_makes_nobody_look_up_an_id() -> None:
    for seed, question in enumerate(questions(100, 3)):
        script = demonstrate(
            question, SEED_IDEAS, random.Random(seed), description=["ids-in-orders"]
        )
        assert "SELECT id FROM" not in next(script)
