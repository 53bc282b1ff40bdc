from __future__ import annotations

from evoprompt_search_qa.methods.english import ENGLISH
from evoprompt_search_qa.methods.measure import measure
from evoprompt_search_qa.methods.play import Attempt

from evoprompt.types import Question, Turn


def test_what_was_given_is_neither_an_answer_nor_bad_format() -> None:
    question = Question("q", "Who?", ("Ada",))
    turns = [Turn("", "<answer>Ada</answer>"), Turn("<answer>Ada Lovelace</answer>")]
    found = measure(Attempt(question, "i", ENGLISH, turns, searches=1))
    assert found["exact_match"] == 0.0
    assert found["substring_match"] == 1.0
    assert 0.0 < found["f1"] < 1.0
    assert found["valid_format"] == 1.0
    assert found["tool_calls"] == 1.0
