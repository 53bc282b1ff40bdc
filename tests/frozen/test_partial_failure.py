"""What fails in part is seen with its number, and is never called perfect; at default settings."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import optimizing
import pytest
from optimizing import Writes, adding

import evoprompt
from evoprompt import EvopromptWarning, InputError, ProposalRequest
from evoprompt.experiments.eventfile import read_events
from evoprompt.optimizer.result import read_result
from evoprompt.support.failures import FailureCount
from evoprompt.testing.openai_server import chat_fields

TRAIN = [f"train {n}" for n in range(20)]
VALIDATION = [f"question {n}" for n in range(20)]


def shout(instruction: str, example: str) -> str:
    return example.upper() if "twice" in instruction else example


def fragile(instruction: str, example: str) -> str:
    if example.startswith("question") and int(example.split()[1]) % 2:
        raise ValueError("no such table")
    return shout(instruction, example)


def metric(example: str, output: str) -> float:
    return float(output.isupper())


def run(program: Any = fragile, metric: Any = metric, **given: Any) -> evoprompt.OptimizationResult:
    usual = {"valset": VALIDATION, "proposer": adding("Do it twice."), "progress": False}
    return optimizing.optimize("Shout.", TRAIN, metric, program=program, **{**usual, **given})


def test_half_of_the_validation_questions_fail(tmp_path: Path) -> None:
    with pytest.warns(EvopromptWarning, match="failed: .* first because ValueError") as told:
        result = run(directory=tmp_path / "run")
    assert result.value == 1.0
    assert (result.asked, result.unscored) == (10, 10)
    assert "on 10 of 20 validation questions" in result.facts[1]
    assert result.facts[1].endswith("; the program failed at the other 10")
    assert "perfect" not in result.stopped
    assert (
        "10 validation questions that it has a reward for; at 10 other questions" in result.stopped
    )
    found = result.failures
    assert found.first == "ValueError: no such table"
    assert 10 <= found.failed < found.of == result.rollouts
    assert str(told[-1].message).startswith(f"of all rollouts {found}; required: ")
    assert f"failed: {found.failed} of {found.of}, first because ValueError" in result.facts[3]
    assert read_result(tmp_path / "run").failures == found
    said = [e["message"] for e in read_events(tmp_path / "run" / "events.jsonl") if "message" in e]
    assert str(found) in said[-1]
    with pytest.warns(EvopromptWarning):
        assert run(resume=tmp_path / "run").failures == found


def test_a_single_failure_is_in_the_result_and_no_warning() -> None:
    def once(instruction: str, example: str) -> str:
        if example == "question 3" and "twice" not in instruction:
            raise ValueError("no such table")
        return shout(instruction, example)

    result = run(once)
    assert result.failures.failed <= 1
    assert "perfect" in result.stopped
    many = [FailureCount(n, 100, "x").are_many for n in range(5)]
    assert many == [False, False, False, True, True]  # from a few per cent on
    assert not FailureCount(1, 10, "x").are_many


def test_empty_answers_count_unless_they_are_right() -> None:
    def silent(instruction: str, example: str) -> str:
        return " " if example.endswith("7") else shout(instruction, example)

    with pytest.warns(EvopromptWarning, match="first because the answer was empty"):
        assert run(silent).failures.failed >= 2
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


@pytest.mark.parametrize("form", [lambda *said: said, lambda r, f: {"score": r, "feedback": f}])
def test_a_metric_says_what_was_wrong_in_several_forms(form: Any) -> None:
    heard: list[str] = []

    def write(request: ProposalRequest) -> str:
        heard.extend(one.feedback for one in request.failures)
        return "Do it twice."

    def said(example: str, output: str) -> Any:
        return form(metric(example, output), "louder")

    assert run(shout, said, proposer=Writes(write)).value == 1.0
    assert set(heard) == {"louder"}
    with pytest.raises(InputError, match="required: a finite number"):
        run(metric=lambda example, output: form("good", "fine"))


@pytest.mark.lm
def test_a_function_writes_after_a_prediction_of_dspy_and_its_calls_are_counted() -> None:
    import dspy

    prompts: list[str] = []

    def model(prompt: str) -> str:
        prompts.append(prompt)
        return chat_fields(analysis="So.", candidates=["Do it twice."])

    def judged(example: str, output: str) -> Any:
        return dspy.Prediction(score=metric(example, output), feedback=f"{example} is too quiet")

    given = {"program": shout, "valset": VALIDATION, "progress": False}
    result = optimizing.optimize("Shout.", TRAIN, judged, lm=model, **given)
    assert result.best.text == "Do it twice."
    assert "is too quiet" in prompts[0]
    assert result.writer_cost is not None
    assert result.writer_cost.calls == len(prompts)
    assert result.program_cost is None
    with pytest.raises(InputError, match="lm is 3; required: a name"):
        optimizing.optimize("Shout.", TRAIN, metric, lm=3, **given)


def test_a_job_has_a_line_for_each_text_accepted_and_the_end() -> None:
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
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    accepted, ended, value, gain, failed, *costs = done.stderr.splitlines()
    assert "c1 was accepted with 1.000 on " in accepted
    assert accepted.endswith("written from c0: Shout.{+ Do it twice.+}")
    assert ended.startswith("the optimization ended: the incumbent is perfect")
    assert "corrected for the choice by them" in value
    assert gain.endswith("0.000 with the seed instruction and 1.000 with the best")
    assert "failed: 0 of " in failed
    assert costs == ["the program: its cost is not counted"]  # no language model writes


@pytest.mark.parametrize(("every", "is_warned"), [(8, True), (1, False)])
def test_a_metric_that_returns_nan_is_counted_and_ends_what_cannot_be_measured(
    every: int, is_warned: bool
) -> None:
    def broken(example: str, output: str) -> float:
        return float("nan") if int(example.split()[1]) % every == 0 else metric(example, output)

    if not is_warned:
        with pytest.raises(InputError, match=r"failed in each of the last .* returned nan"):
            run(program=shout, metric=broken)
        return
    with pytest.warns(EvopromptWarning, match="first because the metric returned nan"):
        result = run(program=shout, metric=broken)
    assert 0 < result.failures.failed < result.failures.of
    assert result.value == 1.0


@pytest.mark.parametrize("every", [1, 4])
def test_a_metric_that_returns_none_is_refused_with_its_question(every: int) -> None:
    def silent(example: str, output: str) -> float | None:
        return metric(example, output) if int(example.split()[1]) % every else None

    with pytest.raises(InputError, match=r"the metric returned None for .* a finite number"):
        run(program=shout, metric=silent)
