"""What ``CoEvolve`` takes, refuses and says."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy
import optimizing
import pytest
from scripted_dspy import Asked, scripted

from evoprompt import CoEvolve, Proposal, ProposalRequest, Proposer, optimize
from evoprompt.errors import EvopromptWarning, InputError

pytestmark = pytest.mark.lm

EXAMPLES = [
    dspy.Example(question=f"q{n}", answer="GOOD").with_inputs("question") for n in range(16)
]
TRAIN, VALIDATION = EXAMPLES[:8], EXAMPLES[8:]


def exact(example: Any, pred: Any, trace: Any = None) -> float:
    return float(example.answer == pred.answer)


def shouting(system: str, asked: Asked) -> Mapping[str, object]:
    return {"answer": "GOOD" if "capitals" in system else "good"}


class Capitals(Proposer):
    """Asks for capitals."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        parent = request.parents[0].candidate
        text = f"{parent.text} Use capitals, version {request.step}."
        return [Proposal({**parent.components, request.component: text}, (parent.id,))]


def compiled(
    answer: Any = shouting, student: Any = None, metric: Any = exact, **changes: Any
) -> Any:
    changes = {"proposer": Capitals(), "track_stats": True, "budget": 80, **changes}
    optimizer = CoEvolve(metric, **optimizing.split(changes))
    with dspy.context(lm=scripted(answer)):
        return optimizer.compile(
            student or dspy.Predict("question -> answer"), trainset=TRAIN, valset=VALIDATION
        )


def test_the_package_does_not_hide_dspy() -> None:
    program = "import evoprompt, dspy; print(dspy.Predict, evoprompt.CoEvolve)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_it_is_a_teleprompter_that_tells_its_settings() -> None:
    from dspy.teleprompt import Teleprompter

    optimizer = CoEvolve(exact, budget=7, proposer=Capitals())
    assert isinstance(optimizer, Teleprompter)
    assert optimizer.get_params()["budget"] == 7


def test_inside_a_running_event_loop() -> None:
    async def notebook() -> Any:
        return compiled(max_concurrency=1)

    assert asyncio.run(notebook()).detailed_results.result.value == 1.0


def test_the_model_of_the_context_is_asked_in_every_thread() -> None:
    def refuse(system: str, asked: Asked) -> Mapping[str, object]:
        raise AssertionError("the model of another context")

    with dspy.context(lm=scripted(refuse)):
        better = compiled(max_concurrency=6)
    assert better.detailed_results.result.value == 1.0


def test_a_resume_goes_on(tmp_path: Path) -> None:
    calls: list[str] = []

    def counted(example: Any, pred: Any, trace: Any = None) -> float:
        calls.append(example.question)
        return exact(example, pred)

    compiled(metric=counted, directory=tmp_path / "run")
    asked = len(calls)
    again = compiled(metric=counted, resume=tmp_path / "run")
    assert len(calls) == asked
    assert again.detailed_results.result.value == 1.0
    again.save(tmp_path / "whole", save_program=True)


def test_a_program_that_raises_scores_nothing_once_it_has_worked() -> None:
    class Fragile(dspy.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.answer = dspy.Predict("question -> answer")

        def forward(self, question: str) -> Any:
            prediction = self.answer(question=question)
            if question in ("q3", "q11") and prediction.answer == "good":
                raise RuntimeError("it has to shout")
            return prediction

    found = compiled(student=Fragile()).detailed_results.result
    assert found.value == 1.0
    assert found.failures.failed > 0
    assert found.failures.of == found.rollouts
    assert found.failures.first == "The program failed: RuntimeError: it has to shout"


def test_a_program_that_never_works_is_an_error_with_its_words() -> None:
    class Broken(dspy.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.answer = dspy.Predict("question -> answer")

        def forward(self, question: str) -> Any:
            raise RuntimeError("no such table")

    with pytest.raises(InputError, match="no such table"):
        compiled(student=Broken())


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
    optimizer = CoEvolve(exact, proposer=Capitals())
    predict = dspy.Predict("question -> answer")
    with pytest.raises(InputError, match="with_inputs"):
        optimizer.compile(predict, trainset=[dspy.Example(question="q")], valset=VALIDATION)
    with pytest.raises(InputError, match="teacher"):
        optimizer.compile(predict, trainset=TRAIN, teacher=predict)
    with pytest.raises(InputError, match="no predictor and no tool"):
        optimizer.compile(dspy.Module(), trainset=TRAIN, valset=VALIDATION)
    with pytest.raises(InputError, match="is empty"):
        optimizer.compile(predict, trainset=[], valset=VALIDATION)


def test_a_language_model_of_dspy_writes_and_both_are_paid_apart() -> None:
    asked: list[str] = []

    def writes(system: str, fields: Asked) -> Mapping[str, object]:
        asked.append(system)
        return {"analysis": "It whispers.", "candidates": [f"Use capitals, number {len(asked)}."]}

    optimizer = CoEvolve(exact, lm={"model": scripted(writes), "budget": {"calls": 9}}, budget=80)
    optimizer.track_stats = True
    with dspy.context(lm=scripted(shouting)):
        better = optimizer.compile(
            dspy.Predict("question -> answer"), trainset=TRAIN, valset=VALIDATION
        )
    found = better.detailed_results.result
    assert found.value == 1.0
    assert "capitals" in better.signature.instructions
    assert found.writer_cost is not None
    assert found.program_cost is not None
    assert found.writer_cost.calls == len(asked) + 1  # it was asked first whether it is there
    assert found.program_cost.calls == found.rollouts
    assert found.program_cost.input_tokens > 0
    assert found.program_cost.usd is None  # nobody knows what a scripted model costs


def test_a_program_given_to_optimize_is_shown_the_way_here() -> None:
    with pytest.raises(InputError, match=r"CoEvolve\(metric, budget=...\).compile"):
        optimize(
            "Answer.",
            TRAIN,
            exact,
            program=dspy.Predict("question -> answer"),
            valset=VALIDATION,
            proposer=Capitals(),
        )
