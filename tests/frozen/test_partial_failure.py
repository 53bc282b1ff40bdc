"""What fails in part is seen with its number, and is never called perfect; at default settings."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import optimizing
import pytest

import evoprompt
from evoprompt import EvopromptWarning, InputError, Proposal, ProposalRequest, Proposer
from evoprompt.evaluation import Failures, Score
from evoprompt.experiments.eventfile import read_events
from evoprompt.optimizer.result import read_result
from evoprompt.testing.openai_server import chat_fields

TRAIN = [f"train {n}" for n in range(20)]
VALIDATION = [f"question {n}" for n in range(20)]


class Twice(Proposer):
    """Has one idea."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        parent = request.parents[0].candidate
        return [Proposal.of(f"{parent.text} Do it twice.", parent)]


def fragile(instruction: str, example: str) -> str:
    if example.startswith("question") and int(example.split()[1]) % 2:
        raise ValueError("no such table")
    return example.upper() if "twice" in instruction else example


def metric(example: str, output: str) -> float:
    return float(output.isupper())


def run(program: Any = fragile, metric: Any = metric, **given: Any) -> evoprompt.OptimizationResult:
    return optimizing.optimize(
        "Shout.",
        TRAIN,
        metric,
        program=program,
        **{"valset": VALIDATION, "proposer": Twice(), "progress": False, **given},
    )


def test_half_of_the_validation_questions_fail(tmp_path: Path) -> None:
    with pytest.warns(EvopromptWarning, match="failed: .* first because ValueError") as told:
        result = run(directory=tmp_path / "run")
    assert result.value == 1.0
    assert result.asked == 10
    assert "perfect" not in result.stopped
    assert "10 validation questions that it has a reward for; at 10 others" in result.stopped
    found = result.failures
    assert found.first == "ValueError: no such table"
    assert 10 <= found.failed < found.of == result.rollouts
    assert str(told[-1].message).startswith(f"of all rollouts {found}; required: ")
    assert f"failed: {found.failed} of {found.of}, first because ValueError" in result.facts()[2]
    assert repr(found) in repr(result)
    assert read_result(tmp_path / "run").failures == found
    said = [e["message"] for e in read_events(tmp_path / "run" / "events.jsonl") if "message" in e]
    assert str(found) in said[-1]
    with pytest.warns(EvopromptWarning):
        assert run(resume=tmp_path / "run").failures == found


def test_a_single_failure_is_in_the_result_and_no_warning() -> None:
    def once(instruction: str, example: str) -> str:
        if example == "question 3" and "twice" not in instruction:
            raise ValueError("no such table")
        return example.upper() if "twice" in instruction else example

    result = run(once)
    assert result.failures.failed <= 1
    assert "perfect" in result.stopped


def test_empty_answers_count_unless_they_are_right() -> None:
    def silent(instruction: str, example: str) -> str:
        return " " if example.endswith("7") else fragile(instruction, f"other {example}")

    with pytest.warns(EvopromptWarning, match="first because the answer was empty"):
        result = run(silent)
    assert result.failures.failed >= 2
    right = run(silent, lambda example, output: float(output.isupper() or not output.strip()))
    assert right.failures.failed == 0


def test_a_candidate_whose_rollouts_fail_is_told_so() -> None:
    def program(instruction: str, example: str) -> str:
        if "twice" in instruction:
            raise ValueError("too long")
        return example

    with pytest.warns(EvopromptWarning):
        result = run(program, patience=1)
    (verified,) = (event for event in result.log if event["event"] == "verified")
    assert verified["reason"] == "no better than c0; the program failed at 3 of 3 of its questions"


@pytest.mark.parametrize(
    "said",
    [
        lambda right: (right, "louder"),
        lambda right: {"score": right, "feedback": "louder"},
        lambda right: Score(right, "louder"),
    ],
    ids=["a pair", "a mapping", "a score"],
)
def test_a_metric_says_what_was_wrong_in_several_forms(said: Any) -> None:
    heard: list[str] = []

    class Hears(Twice):
        def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
            heard.extend(one.feedback for one in request.failures)
            return super().propose(request)

    def program(instruction: str, example: str) -> str:
        return example.upper() if "twice" in instruction else example

    result = run(program, lambda example, output: said(metric(example, output)), proposer=Hears())
    assert result.value == 1.0
    assert set(heard) == {"louder"}


@pytest.mark.parametrize("bad", [("good", "fine"), (1.0, 2.0), {"feedback": "fine"}], ids=repr)
def test_a_metric_that_says_no_number_is_refused(bad: Any) -> None:
    with pytest.raises(InputError, match="required: a finite number"):
        run(metric=lambda example, output: bad)


@pytest.mark.lm
def test_a_function_writes_after_a_prediction_of_dspy_and_its_calls_are_counted() -> None:
    import dspy

    prompts: list[str] = []

    def model(prompt: str) -> str:
        prompts.append(prompt)
        return chat_fields(analysis="So.", candidates=["Do it twice."])

    def program(instruction: str, example: str) -> str:
        return example.upper() if "twice" in instruction else example

    def judged(example: str, output: str) -> Any:
        return dspy.Prediction(score=metric(example, output), feedback=f"{example} is too quiet")

    result = optimizing.optimize(
        "Shout.", TRAIN, judged, program=program, valset=VALIDATION, lm=model, progress=False
    )
    assert result.best.text == "Do it twice."
    assert "is too quiet" in prompts[0]
    assert result.writer_cost is not None
    assert result.writer_cost.calls == len(prompts)
    assert result.program_cost is None
    with pytest.raises(InputError, match="lm is 3; required: a name"):
        optimizing.optimize("Shout.", TRAIN, metric, program=program, valset=VALIDATION, lm=3)


def test_a_job_has_a_line_for_each_text_accepted_and_the_end(tmp_path: Path) -> None:
    script = """
        import evoprompt
        from evoprompt import Proposal, Proposer

        class Twice(Proposer):
            def propose(self, request):
                parent = request.parents[0].candidate
                return [Proposal.of(parent.text + " Do it twice.", parent)]

        words = [f"word{n}" for n in range(40)]
        evoprompt.optimize(
            "Shout.",
            words[:20],
            lambda example, output: float(output.isupper()),
            program=lambda text, example: example.upper() if "twice" in text else example,
            valset=words[20:],
            proposer=Twice(),
        )
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True
    )
    lines = done.stderr.splitlines()
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert [line for line in lines if "was accepted" in line] == lines[:1]
    assert "c1 was accepted with 1.000: Shout. Do it twice." in lines[0]
    assert lines[1].startswith("it ended: the incumbent is perfect")
    assert "corrected for having been chosen by them" in lines[2]
    assert "failed: 0 of " in lines[3]
    assert lines[4:] == [
        "the writer: what it cost is not counted",
        "the program: what it cost is not counted",
    ]


def test_failures_are_many_from_a_few_per_cent_on() -> None:
    assert [Failures(n, 100, "x").are_many for n in range(5)] == [False, False, False, True, True]
    assert not Failures(1, 10, "x").are_many
    assert not Failures(0, 0).are_many
