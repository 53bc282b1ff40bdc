"""``optimize(program=adapter)`` with an adapter as GEPA takes them, without GEPA."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optimizing
import pytest
from optimizing import Writes

import evoprompt
from evoprompt import ProposalRequest
from evoprompt.support.errors import InputError

SEED = {"plan": "Plan the answer.", "write": "Write the answer."}
TRAIN = [f"question {index}" for index in range(8)]
VALIDATION = [f"validation {index}" for index in range(8)]


@dataclass
class Batch:
    """GEPA's ``EvaluationBatch``."""

    outputs: list[str]
    scores: list[Any]
    trajectories: list[str] | None = None
    objective_scores: list[dict[str, float]] | None = None
    num_metric_calls: int | None = None


class Shouting:
    """Right if the writer is told to use capitals; its trajectories name what was asked."""

    propose_new_texts: Any = None

    def __init__(self) -> None:
        self.batches: list[tuple[list[str], bool]] = []
        self.threads: set[str] = set()

    def evaluate(
        self, batch: list[str], candidate: dict[str, str], capture_traces: bool = False
    ) -> Any:
        self.batches.append((batch, capture_traces))
        self.threads.add(threading.current_thread().name)
        right = "capitals" in candidate["write"]
        outputs = [one.upper() if right else one for one in batch]
        trajectories = [f"trace of {one}" for one in batch] if capture_traces else None
        return Batch(outputs, [float(right)] * len(batch), trajectories)

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: Batch, components_to_update: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        assert eval_batch.trajectories is not None
        assert len(eval_batch.trajectories) == len(eval_batch.outputs) == len(eval_batch.scores)
        (name,) = components_to_update
        told = {"Tool": "no answer", "Feedback": f"{name} should shout"}
        pairs = zip(eval_batch.trajectories, eval_batch.outputs, strict=True)
        return {name: [{"Inputs": {"trace": t}, "Generated Outputs": o, **told} for t, o in pairs]}


def shout(request: ProposalRequest) -> Mapping[str, str]:
    """Adds to the component that it is asked about that capitals are wanted."""
    name = request.component
    before = request.parents[0].candidate.components[name]
    return {name: f"{before} Use capitals, version {request.step}."}


def run(adapter: Any, **changes: Any) -> evoprompt.OptimizationResult:
    given: dict[str, Any] = {"proposer": Writes(shout), "valset": VALIDATION, "budget": 100}
    return optimizing.optimize(SEED, TRAIN, program=adapter, **(given | changes))


def test_it_evaluates_in_batches_in_this_thread_and_its_reflective_dataset_is_read() -> None:
    requests: list[ProposalRequest] = []

    def write(request: ProposalRequest) -> Mapping[str, str]:
        requests.append(request)
        return shout(request)

    adapter = Shouting()
    result = run(adapter, proposer=Writes(write))
    assert result.value == 1.0
    assert "capitals" in result.best.components["write"]
    assert sum(len(batch) for batch, _ in adapter.batches) == result.rollouts <= 100
    assert adapter.threads == {threading.current_thread().name}
    for batch, traced in adapter.batches:
        assert traced == (batch[0] in TRAIN)
    for request in requests:
        for failure in request.failures:
            assert failure.question.text.startswith("trace: trace of question ")
            assert failure.feedback == f"{request.component} should shout"
            assert failure.turns[0].action.startswith("question ")
            assert failure.turns[0].observation == "Tool: no answer"


def test_a_resume_reads_the_same(tmp_path: Path) -> None:
    first = run(Shouting(), budget=16, directory=tmp_path / "run")
    adapter, whole = Shouting(), run(Shouting())
    after = run(adapter, resume=tmp_path / "run")
    assert first.rollouts <= 16
    assert (after.best, after.curve) == (whole.best, whole.curve)
    assert sum(len(batch) for batch, _ in adapter.batches) == whole.rollouts - first.rollouts


@pytest.mark.filterwarnings("ignore::evoprompt.EvopromptWarning")
@pytest.mark.parametrize("score", [None, float("nan")])
def test_a_score_that_is_none_costs_that_record_alone(score: Any) -> None:
    class Flaky(Shouting):
        def evaluate(self, batch: list[str], *given: Any, **more: Any) -> Any:
            found = super().evaluate(batch, *given, **more)
            found.scores = [score if one.endswith("3") else 0.0 for one in batch]
            return found

    result = run(Flaky(), patience=2)
    assert result.asked == len(VALIDATION) - 1
    assert result.value == 0.0
    assert result.failures.failed > 0


def test_the_objective_scores_of_an_adapter_may_have_limits() -> None:
    class Measured(Shouting):
        def evaluate(self, batch: list[str], candidate: Any, capture_traces: bool = False) -> Any:
            evaluation = super().evaluate(batch, candidate, capture_traces)
            length = float(len(candidate["write"]))
            evaluation.objective_scores = [{"length": length}] * len(batch)
            return evaluation

    many = [f"other question {n}" for n in range(16)]  # few could not show that it is longer
    limited = run(Measured(), limits={"length": 1}, valset=many, patience=3).limited[0]
    assert limited.before == len(SEED["write"]) == limited.after


@pytest.mark.filterwarnings("ignore::evoprompt.EvopromptWarning")
def test_a_trace_that_cannot_be_read_costs_its_record_alone() -> None:
    class Forgetful(Shouting):
        def make_reflective_dataset(self, candidate: Any, batch: Any, names: Any) -> Any:
            if batch.outputs[0].endswith("3"):
                raise KeyError("trace")
            return super().make_reflective_dataset(candidate, batch, names)

    result = run(Forgetful(), proposer=Writes(lambda request: ""))
    assert 0 < result.failures.failed < 5
    assert "reflective_dataset raised KeyError: 'trace'" in result.failures.first
    assert "required: records of one failure" in result.failures.first


class Odd(Shouting):
    """Returns what it was made with."""

    def __init__(self, returned: Any) -> None:
        super().__init__()
        self._returned = returned

    def evaluate(self, batch: list[str], *given: Any, **more: Any) -> Any:
        if isinstance(self._returned, Exception):
            raise self._returned
        return self._returned(batch)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (dict.fromkeys, "returned a dict; required: GEPA's EvaluationBatch"),
        (lambda batch: SimpleNamespace(outputs=batch, scores=batch), "with outputs, scores, traj"),
        (
            lambda batch: Batch(batch, [None] * len(batch)),
            "is None, with the output .*required: a number",
        ),
        (RuntimeError("no model"), "no model"),
        (lambda batch: Batch(["out"], [0.0]), "one of each for an example"),
        (lambda batch: Batch(batch, [2.0] * len(batch)), "score of the adapter"),
    ],
    ids=["no batch", "no dataclass", "no scores", "it raises", "too few", "above perfect"],
)
def test_what_an_adapter_may_not_return_is_an_error(returned: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        run(Odd(returned))


def test_an_adapter_beside_a_program_and_what_is_none_are_refused() -> None:
    with pytest.raises(InputError, match="one or the other"):
        optimizing.optimize(SEED, TRAIN, lambda example, output: 1.0, program=Shouting())
    with pytest.raises(InputError, match="make_reflective_dataset"):
        run(object())
    with pytest.raises(InputError, match="lm is not given"):  # it writes no texts itself
        run(Shouting(), proposer="reflection")


@pytest.mark.filterwarnings("ignore::evoprompt.EvopromptWarning")
@pytest.mark.parametrize("texts", [None, "Shout.", {"plan": None}])
def test_what_an_adapter_may_not_write_is_named(texts: object) -> None:
    adapter = Shouting()
    adapter.propose_new_texts = lambda *given: texts
    with pytest.raises(InputError, match=r"returned .*; required: a mapping of"):
        run(adapter, proposer="reflection")
