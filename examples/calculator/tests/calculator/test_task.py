from __future__ import annotations

import pytest
from evoprompt_calculator.bank import CLOSING, OPENING
from evoprompt_calculator.task import Calculator, CalculatorSettings, TwoStages

from evoprompt.agents import Episode
from evoprompt.experiments.testing import TaskSuite
from evoprompt.types import Question, Turn

SETTINGS = CalculatorSettings(train=20, validation=10, test=10)


class TestCalculator(TaskSuite):
    def build(self) -> Calculator:
        return Calculator(SETTINGS)


class TestTwoStages(TaskSuite):
    def build(self) -> TwoStages:
        return TwoStages(SETTINGS)


QUESTION = Question("q", "What is 6 times 7?", answers=("42",), row={"kind": "one step"})


def result(text: str) -> Turn:
    opening, closing = "\n<|im_start|>user\n<tool_response>\n", "\n</tool_response><|im_end|>\n"
    return Turn(f"{OPENING}6*7{CLOSING}", f"{opening}{text}{closing}")


@pytest.mark.parametrize(
    ("turns", "answer", "reward"),
    [
        ((), "42", 1.0),
        ((result("42"),), "42", 1.0),
        ((result("42"),), "It is 42.", 0.5),
        ((result("13"), result("42")), None, 0.5),
        ((result("420"),), None, 0.0),
        ((result("Error: 42 is no expression"),), "It is 42.", 0.0),
        ((Turn("42", ""),), None, 0.0),
    ],
)
def test_a_call_that_finds_the_number_is_worth_half(
    turns: tuple[Turn, ...], answer: str | None, reward: float
) -> None:
    score = TwoStages(SETTINGS).score(Episode([], turns=list(turns), answer=answer), QUESTION)
    assert (score.reward, score.metrics["accuracy"]) == (reward, float(answer == "42"))
