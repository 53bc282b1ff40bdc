"""What a user reads while an optimization goes on, at its end, and how it goes on by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from optimizing import HABITS, SEED, Writes, learn

from evoprompt import InputError, ProposalRequest


def test_each_iteration_says_what_became_of_its_text_and_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ideas = iter(["Be happy.", HABITS[0], "Be glad.", "Be calm."])
    result = learn(
        proposer=Writes(lambda request: f"{SEED} {next(ideas)}"), patience=2, progress=True
    )
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("iteration")]
    assert "c1 was rejected with 0.000 on " in lines[0]
    assert "no better than c0: 0.000 against 0.000 on the " in lines[0]
    assert "c2 was accepted with " in lines[1]
    assert lines[1].endswith(f"written from c0: {SEED}{{+ {HABITS[0]}+}}")
    assert result.shared > 0
    assert f"{result.after:.3f} with the best" in result.facts[2]


def test_without_a_better_text_before_and_after_are_the_same() -> None:
    result = learn(patience=0)
    assert result.before == result.after == result.validation


def test_the_first_request_holds_the_placeholders_of_the_seed() -> None:
    requests: list[ProposalRequest] = []

    def write(request: ProposalRequest) -> str:
        requests.append(request)
        return f"{request.parents[0].candidate.text} {HABITS[len(requests) % len(HABITS)]}"

    seed = "Answer {question} as {{json}}, by $Style."
    learn(seed_instruction=seed, proposer=Writes(write), patience=3, required=("Answer",))
    assert requests[0].required == ("Answer", "{question}", "{{json}}", "$Style")
    assert {request.required for request in requests} == {requests[0].required}


def test_a_resume_by_itself_begins_and_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(InputError, match="resume is given without a directory"):
        learn(resume_option="auto")
    first = learn(directory=folder, resume_option="auto", budget=100)
    second = learn(directory=folder, resume_option="auto")
    whole = learn()
    assert first.rollouts < second.rollouts == whole.rollouts
    assert second.best.text == whole.best.text
