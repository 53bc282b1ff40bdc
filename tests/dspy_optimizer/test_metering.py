"""The program's own language models cost no more than they may."""

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

from evoprompt import CoEvolve, ProposalRequest
from evoprompt.support.errors import InputError

pytestmark = pytest.mark.lm

EXAMPLES = [
    dspy.Example(question=f"q{n}", answer="GOOD").with_inputs("question") for n in range(16)
]
PRICES = {"scripted/model": {"input": 0.0, "output": 1_000_000.0}}  # an answer costs two USD
LONGEST = 4


def counting(request: ProposalRequest) -> Mapping[str, str]:
    """A text that was never there."""
    text = f"Count to {request.step} before you answer, then {request.rng.random()}."
    return {request.component: text}


class Model:
    """Answers, and counts."""

    def __init__(self, **settings: Any) -> None:
        self.asked = 0
        self.lm = scripted(self._answer).copy(**{"max_tokens": LONGEST, **settings})

    def _answer(self, system: str, asked: Asked) -> Mapping[str, object]:
        self.asked += 1
        return {"answer": "bad"}


def exact(example: Any, pred: Any, trace: Any = None) -> float:
    return float(example.answer == pred.answer)


def compiled(model: Model, student: Any = None, **changes: Any) -> Any:
    settings = {"prices": PRICES, "max_concurrency": 1, "budget": 60, "patience": 50}
    optimizer = CoEvolve(
        exact,
        proposer=Writes(counting),
        track_stats=True,
        **optimizing.split({**settings, **changes}),
    )
    with dspy.context(lm=model.lm):
        return optimizer.compile(
            student or dspy.Predict("question -> answer"),
            trainset=EXAMPLES[:8],
            valset=EXAMPLES[8:],
        )


@pytest.mark.parametrize("threads", [1, 4])
def test_no_request_is_sent_that_may_cost_too_much(threads: int) -> None:
    model = Model()
    found = compiled(model, usd=40.0, max_concurrency=threads).detailed_results
    # Each has cost 2 USD and could have cost 4: so many at a time may be under way at the end.
    assert 19 - threads <= model.asked <= 19
    assert "budget is 40" in found.stopped
    assert found.program_cost.output_tokens == 2 * model.asked  # counted once
    free = Model()
    assert "the budget is spent" in compiled(free, usd=1000.0).detailed_results.stopped
    assert free.asked > 40


def test_predictors_with_models_of_their_own_are_counted_and_returned_as_they_were() -> None:
    shared, own = Model(), Model()
    student = dspy.Predict("question -> answer")
    student.lm = own.lm
    better = compiled(shared, student, usd=20.0)
    assert (shared.asked, own.asked) == (0, 9)
    with dspy.context(lm=shared.lm):
        said = [better(question="q0").answer for _ in range(20)]  # what is returned has no limit
    assert said == ["bad"] * 20
    assert shared.asked == 0


class Asking(dspy.Module):  # type: ignore[misc]
    """Asks its predictor in a way of its own."""

    def __init__(self, way: Callable[[Any, str], Any]) -> None:
        super().__init__()
        self.answer = dspy.Predict("question -> answer")
        self._way = way

    def forward(self, question: str) -> Any:
        return self._way(self.answer, question)


def test_async_programs_are_counted() -> None:
    model = Model()
    compiled(model, Asking(lambda ask, text: asyncio.run(ask.acall(question=text))), usd=20.0)
    assert model.asked == 9


def test_copies_of_a_model_that_a_module_makes_are_counted() -> None:
    model = Model()
    never = dspy.BestOfN(
        dspy.Predict("question -> answer"), N=2, reward_fn=lambda given, said: 0.0, threshold=1.0
    )
    compiled(model, never, usd=20.0)
    assert model.asked == 9


def test_a_counted_model_can_do_what_it_can_do_elsewhere() -> None:
    told: list[bool] = []

    def telling(ask: Any, question: str) -> Any:
        told.append(dspy.settings.lm.supports_response_schema)
        return ask(question=question)

    model = Model()
    model.lm.engine.supports_response_schema = True
    compiled(model, Asking(telling), budget=20)
    assert told == [True] * len(told)
    assert told


def test_a_program_that_catches_everything_is_stopped_all_the_same() -> None:
    def stubborn(ask: Any, question: str) -> Any:
        try:
            return ask(question=question)
        except Exception:
            return dspy.Prediction(answer="GOOD")

    model = Model()
    found = compiled(model, Asking(stubborn), usd=30.0).detailed_results
    assert model.asked == 14
    assert "budget is 30" in found.stopped
    assert found.value == 0.0


def test_a_resume_knows_what_was_spent(tmp_path: Path) -> None:
    model = Model()
    compiled(model, usd=30.0, directory=tmp_path / "run")
    assert model.asked == 14
    compiled(model, usd=30.0, resume=tmp_path / "run")
    assert model.asked == 14
    compiled(model, usd=40.0, resume=tmp_path / "run")
    assert model.asked == 19


def test_a_model_that_a_module_asks_by_itself_ends_it() -> None:
    hidden = Model()

    def hiding(ask: Any, question: str) -> Any:
        with dspy.context(lm=hidden.lm):
            return ask(question=question)

    with pytest.raises(InputError, match=r"asks scripted/model by itself.*required: a model of"):
        compiled(Model(), Asking(hiding), usd=30.0)
    assert hidden.asked == 1


def test_what_cannot_be_limited_is_refused_before_anything_is_asked() -> None:
    model = Model()
    with pytest.raises(InputError, match="prices of scripted/model are unknown; required: pric"):
        compiled(model, usd=1.0, prices=None)
    with pytest.raises(InputError, match=r"have no limit; required: one, as dspy\.LM"):
        compiled(Model(max_tokens=None), usd=1.0)
    with pytest.raises(InputError, match=r"usd is nan; required: a finite number"):
        CoEvolve(exact, usd=float("nan"))
    with pytest.raises(InputError, match=r"prices of x are .*required: USD per million"):
        CoEvolve(exact, usd=1.0, prices={"x": {"inputs": 1.0}})
    student = dspy.Predict("question -> answer")
    student.lm = dspy.utils.DummyLM([{"answer": "x"}])
    with pytest.raises(InputError, match="usd is limited and the program asks a DummyLM"):
        compiled(model, student, usd=1.0)
    assert model.asked == 0
