"""The rows of a veRL batch become questions, also those that leave asking to an environment."""

from __future__ import annotations

from typing import Any

import pytest
from evoprompt_verl.columns import batch_of, questions

from evoprompt.experiments.hosts.verl.rows import question_of
from evoprompt.hosting.rows import ASKED_BY_ENVIRONMENT

EMPTY = [
    pytest.param([{"role": "user", "content": ""}], id="an empty message"),
    pytest.param([{"role": "user", "content": " \n"}], id="white space"),
    pytest.param([{"role": "user", "content": [{"type": "image"}]}], id="an image alone"),
    pytest.param([{"role": "user", "content": [{"type": "text", "text": ""}]}], id="an empty part"),
    pytest.param([{"role": "system", "content": "Act."}], id="a system message alone"),
    pytest.param([], id="no message"),
]


@pytest.mark.parametrize("prompt", EMPTY)
def test_rows_that_ask_nothing_are_told_apart_by_their_index(prompt: list[Any]) -> None:
    rows = [{"raw_prompt": prompt, "extra_info": {"index": n}, "uid": f"u{n}"} for n in range(3)]
    asked = questions(batch_of(rows))
    assert len({question.id for question in asked}) == 3
    assert {question.text for question in asked} == {ASKED_BY_ENVIRONMENT}


@pytest.mark.parametrize("prompt", EMPTY)
def test_rows_that_are_all_alike_are_questions_of_their_own(prompt: list[Any]) -> None:
    rows = [{"raw_prompt": prompt, "uid": f"u{number}"} for number in range(3)]
    assert len({question.id for question in questions(batch_of(rows))}) == 3


@pytest.mark.parametrize("prompt", EMPTY)
def test_an_agent_loop_takes_a_row_that_asks_nothing(prompt: list[Any]) -> None:
    assert question_of({"raw_prompt": prompt}).text == ASKED_BY_ENVIRONMENT


def test_rows_of_data_sets_that_are_each_numbered_from_0_are_different_questions() -> None:
    rows = [
        {"raw_prompt": [{"role": "user", "content": f"{name}{n}?"}], "extra_info": {"index": n}}
        for name in "ab"
        for n in range(4)
    ]
    assert len({question.id for question in questions(batch_of(rows))}) == 8
