"""``optimizing.optimize(adapter=...)`` with an adapter as GEPA takes them, without GEPA."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optimizing
import pytest

import evoprompt
from evoprompt import EvopromptWarning, Proposal, ProposalRequest, Proposer
from evoprompt.errors import InputError

SEED = {"plan": "Plan the answer.", "write": "Write the answer."}
TRAIN = [f"question {index}" for index in range(8)]
VALIDATION = [f"validation {index}" for index in range(8)]


@dataclass
class Batch:
    """GEPA's ``EvaluationBatch``."""

    outputs: list[str]
    scores: list[float]
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
    ) -> Batch:
        self.batches.append((batch, capture_traces))
        self.threads.add(threading.current_thread().name)
        right = "capitals" in candidate["write"]
        outputs = [one.upper() if right else one for one in batch]
        trajectories = [f"trace of {one}" for one in batch] if capture_traces else None
        return Batch(outputs, [float(right)] * len(batch), trajectories)

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: Batch, components_to_update: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        assert len(components_to_update) == 1
        assert eval_batch.trajectories is not None
        assert len(eval_batch.trajectories) == len(eval_batch.outputs) == len(eval_batch.scores)
        (name,) = components_to_update
        return {
            name: [
                {
                    "Inputs": {"trace": trace},
                    "Generated Outputs": output,
                    "Feedback": f"{name} should shout",
                }
                for trace, output in zip(eval_batch.trajectories, eval_batch.outputs, strict=True)
            ]
        }


class Shouter(Proposer):
    """Adds to the component it is asked about that capitals are wanted."""

    def __init__(self) -> None:
        self.requests: list[ProposalRequest] = []

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        self.requests.append(request)
        parent = request.parents[0].candidate
        name = request.component
        new = f"{parent.components[name]} Use capitals, version {request.step}."
        return [Proposal({**parent.components, name: new}, (parent.id,))]


def run(adapter: Any, **changes: Any) -> evoprompt.OptimizationResult:
    given: dict[str, Any] = {"proposer": Shouter(), "valset": VALIDATION, "budget": 100}
    return optimizing.optimize(SEED, TRAIN, program=adapter, **(given | changes))


def test_the_adapter_evaluates_in_batches_in_this_thread_with_traces_where_they_are_read() -> None:
    adapter = Shouting()
    result = run(adapter)
    assert result.value == 1.0
    assert "capitals" in result.best.components["write"]
    assert sum(len(batch) for batch, _ in adapter.batches) == result.rollouts <= 100
    assert adapter.threads == {threading.current_thread().name}
    for batch, traced in adapter.batches:
        assert traced == (batch[0] in TRAIN)


def test_a_proposer_reads_the_reflective_dataset_of_its_component() -> None:
    proposer = Shouter()
    run(Shouting(), proposer=proposer)
    for request in proposer.requests:
        for failure in request.failures:
            assert failure.question.text.startswith("trace: trace of question ")
            assert failure.feedback == f"{request.component} should shout"
            assert failure.turns[0].action.startswith("question ")


def test_the_adapter_s_own_texts_are_taken_where_no_other_proposer_is_named() -> None:
    asked: list[dict[str, Any]] = []

    def write(
        candidate: dict[str, str],
        reflective_dataset: Mapping[str, Sequence[Mapping[str, Any]]],
        components_to_update: list[str],
    ) -> dict[str, str]:
        asked.append(dict(reflective_dataset))
        return {n: f"{candidate[n]} Use capitals, way {len(asked)}." for n in components_to_update}

    adapter = Shouting()
    adapter.propose_new_texts = write
    result = optimizing.optimize(SEED, TRAIN, program=adapter, valset=VALIDATION, budget=100)
    assert result.value == 1.0
    (records,) = asked[0].values()
    assert records[0]["Inputs"]["trace"].startswith("trace of question ")
    assert "should shout" in records[0]["Feedback"]


def test_an_adapter_names_the_parameters_of_its_texts_as_it_likes() -> None:
    def write(texts: dict[str, str], read: Mapping[str, Any], names: list[str]) -> dict[str, str]:
        assert set(read) == set(names) < set(texts)
        return {name: f"{texts[name]} Use capitals." for name in names}

    adapter = Shouting()
    adapter.propose_new_texts = write
    result = optimizing.optimize(SEED, TRAIN, program=adapter, valset=VALIDATION, budget=100)
    assert result.value == 1.0


def test_a_resume_reads_the_same(tmp_path: Path) -> None:
    first = run(Shouting(), budget=16, directory=tmp_path / "run")
    adapter = Shouting()
    after = run(adapter, resume=tmp_path / "run")
    whole = run(Shouting())
    assert first.rollouts <= 16
    assert after.best == whole.best
    assert after.curve == whole.curve
    assert sum(len(batch) for batch, _ in adapter.batches) == whole.rollouts - first.rollouts


@pytest.mark.parametrize("when", ["always", "once"])
def test_a_trace_that_cannot_be_read_costs_its_record(when: str) -> None:
    class Mute(Shouting):
        read = 0

        def make_reflective_dataset(
            self, candidate: dict[str, str], eval_batch: Batch, components_to_update: list[str]
        ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
            self.read += 1
            if when == "always" or self.read == 1:
                raise KeyError("trace")
            return super().make_reflective_dataset(candidate, eval_batch, components_to_update)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvopromptWarning)
        result = run(Mute())
    assert "make_reflective_dataset raised KeyError: 'trace'" in result.failures.first
    assert "required: records of one failure" in result.failures.first


@pytest.mark.parametrize("bad", [None, float("nan")])
def test_a_score_that_says_nothing_is_no_reward(bad: float | None) -> None:
    class Flaky(Shouting):
        def evaluate(
            self, batch: list[str], candidate: dict[str, str], capture_traces: bool = False
        ) -> Batch:
            found = super().evaluate(batch, candidate, capture_traces)
            scores: list[Any] = [bad if one.endswith("3") else 0.0 for one in batch]
            return Batch(found.outputs, scores, found.trajectories)

    result = run(Flaky(), patience=2)
    assert result.asked == len(VALIDATION) - 1
    assert result.value == 0.0


def test_an_adapter_beside_a_program_and_what_is_none_are_refused() -> None:
    with pytest.raises(InputError, match="one or the other"):
        optimizing.optimize(SEED, TRAIN, lambda example, output: 1.0, program=Shouting())
    with pytest.raises(InputError, match="make_reflective_dataset"):
        run(object())


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"outputs": [], "scores": []}, "returned a dict; required: GEPA's EvaluationBatch"),
        (RuntimeError("no model"), "no model"),
        (Batch(["out"], [0.0]), "one of each for an example"),
        (Batch(["out"] * 6, [2.0] * 6), "score of the adapter"),
    ],
    ids=["no batch", "it raises", "too few", "above perfect"],
)
def test_what_an_adapter_may_not_return_is_an_error(answer: Any, said: str) -> None:
    class Odd(Shouting):
        def evaluate(
            self, batch: list[str], candidate: dict[str, str], capture_traces: bool = False
        ) -> Any:
            if isinstance(answer, Exception):
                raise answer
            if isinstance(answer, Batch) and len(answer.scores) > 1:
                return Batch(batch, answer.scores[:1] * len(batch))
            return answer

    with pytest.raises(InputError, match=said):
        run(Odd())
