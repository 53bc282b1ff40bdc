"""What ``CoEvolve`` takes, refuses and says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dspy
import optimizing
import pytest
from optimizing import Writes
from scripted_dspy import Asked, scripted

from evoprompt import CoEvolve, ProposalRequest, optimize
from evoprompt.support.errors import EvopromptWarning, InputError

pytestmark = pytest.mark.lm

EXAMPLES = [
    dspy.Example(question=f"q{n}", answer="GOOD").with_inputs("question") for n in range(16)
]
TRAIN, VALIDATION = EXAMPLES[:8], EXAMPLES[8:]


def exact(example: Any, pred: Any, trace: Any = None) -> float:
    return float(example.answer == pred.answer)


class Judge:
    """A class of which no object was made."""

    def __init__(self, example: Any, pred: Any, trace: Any = None) -> None:
        pass


def shouting(system: str, asked: Asked) -> Mapping[str, object]:
    return {"answer": "GOOD" if "capitals" in system else "good"}


def capitals(request: ProposalRequest) -> Mapping[str, str]:
    """Asks for capitals."""
    text = request.parents[0].candidate.text
    return {request.component: f"{text} Use capitals, version {request.step}."}


class Checking(dspy.Module):  # type: ignore[misc]
    """Raises where ``fails`` says so."""

    def __init__(self, fails: Callable[[str, str], bool]) -> None:
        super().__init__()
        self.answer = dspy.Predict("question -> answer")
        self._fails = fails

    def forward(self, question: str) -> Any:
        prediction = self.answer(question=question)
        if self._fails(question, prediction.answer):
            raise RuntimeError("it has to shout")
        return prediction


def compiled(
    answer: Any = shouting, student: Any = None, metric: Any = exact, **changes: Any
) -> Any:
    changes = {"proposer": Writes(capitals), "track_stats": True, "budget": 80, **changes}
    optimizer = CoEvolve(metric, **optimizing.split(changes))
    with dspy.context(lm=scripted(answer)):
        return optimizer.compile(
            student or dspy.Predict("question -> answer"), trainset=TRAIN, valset=VALIDATION
        )


def test_the_model_of_the_context_is_asked_in_every_thread_and_under_a_running_loop() -> None:
    def refuse(system: str, asked: Asked) -> Mapping[str, object]:
        raise AssertionError("the model of another context")

    async def notebook() -> Any:
        with dspy.context(lm=scripted(refuse)):
            return compiled(max_concurrency=6)

    assert asyncio.run(notebook()).detailed_results.value == 1.0


def test_a_resume_goes_on(tmp_path: Path) -> None:
    calls: list[str] = []

    def counted(example: Any, pred: Any, trace: Any = None) -> float:
        calls.append(example.question)
        return exact(example, pred)

    compiled(metric=counted, directory=tmp_path / "run")
    asked = len(calls)
    again = compiled(metric=counted, resume=tmp_path / "run")
    assert len(calls) == asked
    assert again.detailed_results.value == 1.0
    again.save(tmp_path / "whole", save_program=True)


@pytest.mark.filterwarnings("ignore:of ")  # that it fails is told early, too
def test_a_program_that_raises_scores_nothing_once_it_has_worked() -> None:
    student = Checking(lambda question, answer: question in ("q3", "q11") and answer == "good")
    found = compiled(student=student).detailed_results
    assert found.value == 1.0
    assert found.failures.failed > 0
    assert found.failures.of == found.rollouts
    assert found.failures.first == "The program failed: RuntimeError: it has to shout"
    with pytest.raises(InputError, match="it has to shout"):
        compiled(student=Checking(lambda question, answer: True))


def test_a_model_that_cannot_be_asked_is_no_fault_of_the_texts() -> None:
    def down(system: str, asked: Asked) -> Mapping[str, object]:
        raise dspy.LMError("the model is away", status=401)

    with pytest.raises(InputError, match="the model is away"):
        compiled(answer=down)


def test_a_metric_that_contradicts_itself_is_warned_of_once() -> None:
    def fickle(
        gold: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
    ) -> Any:
        score = exact(gold, pred)
        return dspy.Prediction(score=score if pred_name is None else 0.5, feedback=None)

    with pytest.warns(EvopromptWarning, match=r"0\.5 for the predictor 'self'") as warned:
        compiled(metric=fickle)
    assert len(warned) == 1


def test_what_cannot_be_used_is_refused() -> None:
    with pytest.raises(InputError, match="pred_name"):
        CoEvolve(lambda: 1.0)
    predict = dspy.Predict("question -> answer")
    with pytest.raises(InputError, match=r"^metric is the class Judge; .*; write metric=Judge\("):
        CoEvolve(Judge)
    with pytest.raises(InputError, match=r"^lm is the class LM; .*; write lm=LM\("):
        CoEvolve(exact, lm=dspy.LM).compile(predict, trainset=TRAIN, valset=VALIDATION)
    optimizer = CoEvolve(exact, proposer=Writes(capitals))
    with pytest.raises(InputError, match=r"CoEvolve\(metric, budget=...\).compile"):
        optimize("Answer.", TRAIN, exact, program=predict, valset=VALIDATION)
    with pytest.raises(InputError, match="with_inputs"):
        optimizer.compile(predict, trainset=[dspy.Example(question="q")], valset=VALIDATION)
    with pytest.raises(InputError, match="teacher"):
        optimizer.compile(predict, trainset=TRAIN, teacher=predict)
    for student in (dspy.Predict, lambda question: question):
        with pytest.raises(InputError, match=r"required: an object of a dspy\.Module"):
            optimizer.compile(student, trainset=TRAIN)
    with pytest.raises(InputError, match="no predictor and no tool"):
        optimizer.compile(dspy.Module(), trainset=TRAIN, valset=VALIDATION)
    with pytest.raises(InputError, match="is empty"):
        optimizer.compile(predict, trainset=[], valset=VALIDATION)


def test_a_language_model_of_dspy_writes_and_both_are_paid_apart() -> None:
    asked: list[str] = []

    def writes(system: str, fields: Asked) -> Mapping[str, object]:
        asked.append(system)
        return {"analysis": "It whispers.", "candidates": [f"Use capitals, number {len(asked)}."]}

    writer = {"model": scripted(writes), "budget": {"calls": 9}}
    better = compiled(lm=writer, proposer="reflection")
    found = better.detailed_results
    assert found.value == 1.0
    assert "capitals" in better.signature.instructions
    assert found.writer_cost is not None
    assert found.program_cost is not None
    assert found.writer_cost.calls == len(asked) + 1  # it was asked first whether it is there
    assert found.program_cost.calls == found.rollouts
    assert found.program_cost.input_tokens > 0
    assert not found.program_cost.priced  # nobody knows what a scripted model costs


def test_a_program_that_never_scores_stops() -> None:
    with (
        pytest.warns(EvopromptWarning, match="every reward up to iteration 5 is 0 "),
        pytest.warns(EvopromptWarning, match="stopped: every reward is 0, the lowest, after 45"),
    ):
        found = compiled(lambda system, asked: {"answer": "bad"}, budget=400).detailed_results
    assert found.iterations == 45
    assert found.stopped.startswith("every reward is 0, the lowest, after 45 iterations")
