"""A limit on a further metric rejects what is shown to break it, and nothing else."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from optimizing import HABITS, SEED, VALIDATION, Writes, learn, program

from evoprompt import InputError, OptimizationResult, ProposalRequest
from evoprompt.log.evaluation import Score
from evoprompt.optimizer.folder import SETTINGS
from evoprompt.optimizer.result import read_result

LONG = "Explain at length."
LIMITS = {"tokens": 400.0}


def score(example: str, output: str) -> Score:
    """Score an output "right, 312 tokens"."""
    right, tokens = output.split(", ")
    return Score(float(right == "right"), right, {"tokens": float(tokens.split()[0])})


def answer(instruction: str, example: str) -> str:
    """Answer as the world of habits does; every habit costs tokens, and an explanation many."""
    tokens = 300 + 10 * sum(habit in instruction for habit in HABITS) + int(example.split()[2]) % 7
    tokens += 500 * (LONG in instruction)
    return f"{program(instruction, example)}, {tokens} tokens"


def write(request: ProposalRequest) -> str:
    """Add two habits: with an explanation in odd iterations, and without one in even ones."""
    text = request.parents[0].candidate.text
    missing = [habit for habit in HABITS if habit not in text][:2]
    words = [*missing, LONG] if request.step % 2 else missing
    return " ".join([text, *words]) if missing else ""


def run(**given: Any) -> OptimizationResult:
    settings = {"proposer": Writes(write), "limits": LIMITS, **given}
    result: OptimizationResult = learn(settings.pop("program", answer), score, **settings)
    return result


def test_a_better_text_that_exceeds_the_limit_is_rejected_and_one_within_it_wins() -> None:
    assert LONG in run(limits={}).best.text
    result = run()
    assert LONG not in result.best.text
    assert all(habit in result.best.text for habit in HABITS)
    assert result.value == 1.0
    reasons = [event["reason"] for event in result.log if event["event"] == "verified"]
    broken = [reason for reason in reasons if reason.startswith("tokens is shown to exceed")]
    assert "its limit of 400: " in broken[0]
    assert " of c0 on the " in broken[0]


def test_the_result_and_the_closing_lines_have_the_means_before_and_after(tmp_path: Path) -> None:
    result = run(directory=tmp_path / "run")
    (tokens,) = result.limited
    assert (tokens.name, tokens.limit) == ("tokens", 400.0)
    assert 300 < tokens.before < 310 < 340 < tokens.after < 350
    assert any(fact.startswith("tokens with a limit of 400: ") for fact in result.facts)
    assert read_result(tmp_path / "run").limited == result.limited
    assert run(resume=tmp_path / "run").limited == result.limited
    assert not run(limits={}).limited


def test_a_resume_needs_the_same_limits(tmp_path: Path) -> None:
    run(limits={}, directory=tmp_path / "run")
    assert "limits" not in (tmp_path / "run" / SETTINGS).read_text(encoding="utf-8")
    with pytest.raises(InputError, match=r"limits is .*'tokens': 400.* required: the same"):
        run(resume=tmp_path / "run")


def test_a_seed_beyond_the_limit_is_improved_by_texts_that_need_no_more_than_it() -> None:
    def free(instruction: str, example: str) -> str:
        return f"{program(instruction, example)}, {800 + int(example.split()[2]) % 7} tokens"

    result = run(program=free)
    assert all(habit in result.best.text for habit in HABITS)
    assert result.limited[0].before > 800


def test_a_text_whose_mean_is_only_by_chance_beyond_the_limit_is_not_rejected() -> None:
    """The mean of the metric is 401, with a deviation of 200; two means would reject it."""

    def scattered(instruction: str, example: str) -> str:
        tokens = (201 if int(example.split()[2]) % 2 else 601) if "habit" in instruction else 390
        return f"{'right' if 'habit' in instruction else 'wrong'}, {tokens} tokens"

    result = run(program=scattered, proposer=Writes(lambda request: f"{SEED} A habit."))
    assert result.best.text == f"{SEED} A habit."
    assert result.limited[0].after == 401


def test_the_whole_validation_set_decides_where_few_questions_cannot_show_a_broken_limit() -> None:
    """Six questions suffice for the reward, as the seed fails everywhere; for the tokens not."""

    def short(instruction: str, example: str) -> str:
        is_long = LONG in instruction
        return f"{'right' if is_long else 'wrong'}, {1000 if is_long else 100} tokens"

    result = run(program=short, proposer=Writes(lambda request: f"{SEED} {LONG}"), patience=2)
    assert result.best.text == SEED
    assert result.asked == len(VALIDATION)


@pytest.mark.parametrize("limit", [0, 1, -5])
def test_a_limit_far_below_the_values_is_broken_by_what_exceeds_them(limit: float) -> None:
    result = run(limits={"tokens": limit}, patience=4)
    assert result.best.text == SEED


def test_the_proposer_reads_the_limits() -> None:
    read: list[str] = []

    def read_and_write(request: ProposalRequest) -> str:
        read.append(request.setting.reward)
        return write(request)

    run(proposer=Writes(read_and_write))
    assert any("exceeds its limit: tokens 400" in text for text in read)


def test_a_limit_on_a_metric_that_no_score_has_is_refused() -> None:
    with pytest.raises(InputError, match=r"limits names 'length', and the scores have tokens; req"):
        run(limits={"length": 5})
    with pytest.raises(InputError, match="and the scores have no metrics; required: a metric of"):
        learn(limits=LIMITS)


@pytest.mark.parametrize("value", ["many", None, math.nan])
def test_a_limited_metric_that_is_no_number_is_refused(value: object) -> None:
    def unusable(example: str, output: str) -> Score:
        return Score(score(example, output).reward, "", {"tokens": value, "kind": "any"})  # type: ignore[dict-item]

    with pytest.raises(InputError, match=r"Score with tokens .* required: a finite number"):
        learn(answer, unusable, limits=LIMITS)
    assert learn(answer, unusable, proposer=Writes(write)).value == 1.0
