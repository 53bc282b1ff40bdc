from __future__ import annotations

import json

import pytest
from evoprompt_calculator.bank import CLOSING, OPENING
from evoprompt_calculator.task import WEIGHTS, CalculatorSettings, OneCall
from evoprompt_tiny.task import KIND
from transformers import AutoTokenizer

from evoprompt.agents import Action, Protocol, Sample
from evoprompt.agents.tasks import EpisodeRunner
from evoprompt.experiments.testing import TaskSuite
from evoprompt.types import Assignment, Candidate, Question, Trajectory, Turn


def task() -> OneCall:
    return OneCall(CalculatorSettings(train=20, validation=10, test=10))


class TestOneCall(TaskSuite):
    def build(self) -> OneCall:
        return task()


@pytest.fixture(scope="module")
def protocol() -> Protocol:
    return task().protocol(AutoTokenizer.from_pretrained(WEIGHTS))


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (f"{OPENING}(3+4)*6{CLOSING}", "42"),
        (f"{OPENING}84/2{CLOSING}", "42"),
        (f"{OPENING}84/2{CLOSING}{OPENING}1+1{CLOSING}", "42"),
        ("42", "42"),
        ("It is 42.", "It is 42."),
        ("", None),
        (
            f"{OPENING}six{CLOSING}",
            "Error: ValueError: only numbers, brackets and + - * / // % **",
        ),
        (f"{OPENING}(3+4{CLOSING}", "Error: ValueError: no arithmetic expression"),
    ],
)
def test_the_answer_is_what_the_first_call_finds(
    protocol: Protocol, said: str, answer: str | None
) -> None:
    move = protocol.act(said)
    assert (move.calls, move.answer) == ((), answer)


def test_a_call_that_cannot_be_read_says_why(protocol: Protocol) -> None:
    answer = protocol.act(f"{OPENING}3+4{CLOSING.replace('}', '', 1)}").answer or ""
    assert answer.startswith("Error: the call cannot be read")


def test_the_calculator_is_shown_and_a_call_ends_the_episode() -> None:
    tokenizer = AutoTokenizer.from_pretrained(WEIGHTS)
    (question, *_) = task().questions("train")
    runner = EpisodeRunner(task(), tokenizer)
    assert '"name": "calculate"' in json.dumps(runner.schemas)
    steps = runner.agent.play([1])
    assert isinstance(next(steps), Sample)
    ids = tokenizer.encode(f"{OPENING}{question.answers[0]}+1{CLOSING}", add_special_tokens=False)
    with pytest.raises(StopIteration) as ended:
        steps.send(Action(ids))
    expected = int(question.answers[0])
    found = task().score(ended.value.value, question)
    assert (found.reward, found.feedback) == (0.0, f"expected {expected}, got {expected + 1}")


def test_half_of_the_problems_take_two_steps() -> None:
    kinds = [str(question.row[KIND]) for question in task().questions("train")]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"one step": 10, "two steps": 10}


PENS = "Mia has 3 pens. Mia finds 4 more. How many?"
DOZENS = "Mia has 3 dozen pens. Mia finds 4 more. How many?"


@pytest.mark.parametrize(
    ("story", "action", "diagnosis"),
    [
        (PENS, "3 + 4 is 7.", "no call"),
        (PENS, f"{OPENING}3-4{CLOSING}", "wrong number"),
        (f"{PENS} Each is 6.", f"{OPENING}3+4{CLOSING}", "one operation"),
        (DOZENS, f"{OPENING}3+4{CLOSING}", "unit ignored"),
        (DOZENS, f"{OPENING}3*12-4{CLOSING}", "wrong number"),
    ],
)
def test_a_failed_call_has_a_diagnosis_with_remedies(
    story: str, action: str, diagnosis: str
) -> None:
    assignment = Assignment("a", Question("q", story, ("7",)), Candidate.of("Call."), 1, "g")
    assert task().diagnose(Trajectory(assignment, 0.0, turns=(Turn(action),))) == [diagnosis]
    assert task().bank.remedies[diagnosis]
