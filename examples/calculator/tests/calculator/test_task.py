from __future__ import annotations

import pytest
from evoprompt_calculator.task import Calculator, CalculatorSettings

from evoprompt.agents import Episode
from evoprompt.errors import InputError
from evoprompt.testing import TaskSuite
from evoprompt.types import Turn


class TestCalculator(TaskSuite):
    def build(self) -> Calculator:
        return Calculator(CalculatorSettings(train=20, validation=10, test=10))


TASK = Calculator(CalculatorSettings(train=20, validation=10, test=10))


@pytest.mark.parametrize(
    ("answer", "reward"), [("{}", 1.0), ("{}.0", 0.0), ("The answer is {} pens.", 0.0), ("", 0.0)]
)
def test_only_the_number_alone_counts(answer: str, reward: float) -> None:
    question = TASK.questions("test")[0]
    said = answer.format(question.answers[0]) or None
    episode = Episode([1], turns=[Turn(said or "")], end="answered", answer=said)
    score = TASK.score(episode, question)
    assert (score.reward, score.metrics["accuracy"]) == (reward, reward)
    assert score.stratum in ("one step", "two steps", "three steps")
    assert bool(score.feedback) is (reward == 0.0)


def test_feedback_says_what_was_expected_and_what_came() -> None:
    question = TASK.questions("test")[0]
    episode = Episode([1], end="out of turns")
    expected = question.answers[0]
    assert TASK.score(episode, question).feedback == (
        f"expected {expected}, got no answer: out of turns"
    )


def test_an_unknown_split_is_an_error_that_names_the_others() -> None:
    with pytest.raises(InputError, match="one of test, validation, train"):
        TASK.questions("dev")
