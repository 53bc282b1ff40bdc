"""The scorer against a table of cases and against the published SQuAD script."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from evoprompt_search_qa import protocol, scoring
from hypothesis import given
from hypothesis import strategies as st
from transformers.data.metrics import squad_metrics

from evoprompt.types import Turn

PUBLISHED: Any = squad_metrics
LINES = (Path(__file__).parent / "scoring_cases.jsonl").read_text(encoding="utf-8").splitlines()
CASES: list[dict[str, Any]] = [json.loads(line) for line in LINES]


def turns_of(case: dict[str, Any]) -> list[Turn]:
    return [Turn(action, observation) for action, observation in case["turns"]]


def scores(case: dict[str, Any]) -> tuple[object, ...]:
    turns, golds = turns_of(case), case["golds"]
    return (
        scoring.exact_match(turns, golds),
        pytest.approx(scoring.f1(turns, golds)),
        scoring.substring_match(turns, golds),
        scoring.valid_format(turns),
    )


def published(case: dict[str, Any]) -> tuple[object, ...]:
    answer = protocol.find_answer(turns_of(case))
    golds = case["golds"] if answer is not None else []
    exact = max((PUBLISHED.compute_exact(gold, answer) for gold in golds), default=0)
    return exact, max((PUBLISHED.compute_f1(gold, answer) for gold in golds), default=0)


def test_every_number_is_as_in_the_table_and_as_the_published_script_has_it() -> None:
    assert len({case["name"] for case in CASES}) == len(CASES) >= 60
    for case in CASES:
        f1 = float(Fraction(case["f1"]))
        table = case["exact_match"], f1, case["substring_match"], case["valid_format"]
        assert scores(case) == table, case["name"]
        assert published(case) == (case["exact_match"], pytest.approx(f1)), case["name"]


WORDS = st.text(alphabet="aAtThHeEn .,'-_\"5é“\u00a0\n") | st.text()


@given(WORDS)
def test_normalisation_is_that_of_the_published_script(text: str) -> None:
    assert scoring.normalise(text) == PUBLISHED.normalize_answer(text)


@given(WORDS.filter(lambda text: "<" not in text), st.lists(WORDS, max_size=3))
def test_the_numbers_are_ordered_and_agree_with_the_published_script(
    answer: str, golds: list[str]
) -> None:
    turns = [Turn(f"<answer>{answer}</answer>")]
    exact, f1 = scoring.exact_match(turns, golds), scoring.f1(turns, golds)
    assert exact <= scoring.substring_match(turns, golds)
    assert exact <= f1 <= 1
    if all(map(scoring.normalise, [answer, *golds])):  # else the script takes all for alike
        assert f1 == pytest.approx(
            max((PUBLISHED.compute_f1(gold, answer.strip()) for gold in golds), default=0)
        )


@pytest.mark.parametrize(
    ("said", "gold", "alike"),
    [
        ("The The", "The The", True),
        ("the the!", "The The", True),
        ("a", "A", True),
        ("the", "A", False),
        ("!", "A", False),
        ("...", "The The", False),
        ("-", "+", False),
        ("the", "He", False),
    ],
)
def test_an_answer_of_which_normalisation_leaves_nothing_equals_only_its_like(
    said: str, gold: str, alike: bool
) -> None:
    turns = [Turn(f"<answer>{said}</answer>")]
    for metric in (scoring.exact_match, scoring.substring_match, scoring.f1):
        assert metric(turns, [gold]) == alike
