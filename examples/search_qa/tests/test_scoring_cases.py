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
by_name = pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])


def turns_of(case: dict[str, Any]) -> list[Turn]:
    return [Turn(action, observation) for action, observation in case["turns"]]


def test_the_table_is_large_and_without_repeats() -> None:
    assert len({case["name"] for case in CASES}) == len(CASES) >= 60


@by_name
def test_every_number_is_as_in_the_table(case: dict[str, Any]) -> None:
    turns, golds = turns_of(case), case["golds"]
    assert scoring.exact_match(turns, golds) == case["exact_match"]
    assert scoring.f1(turns, golds) == pytest.approx(float(Fraction(case["f1"])))
    assert scoring.substring_match(turns, golds) == case["substring_match"]
    assert scoring.valid_format(turns) is case["valid_format"]


@by_name
def test_the_table_agrees_with_the_published_script(case: dict[str, Any]) -> None:
    answer = protocol.find_answer(turns_of(case))
    golds = case["golds"] if answer is not None else []
    exact = max((PUBLISHED.compute_exact(gold, answer) for gold in golds), default=0)
    f1 = max((PUBLISHED.compute_f1(gold, answer) for gold in golds), default=0)
    assert (exact, f1) == (case["exact_match"], pytest.approx(float(Fraction(case["f1"]))))


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
