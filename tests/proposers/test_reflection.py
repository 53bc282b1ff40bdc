from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evoprompt.lm import LanguageModel, LmSettings
from evoprompt.proposers.reflection import REFLECT, Reflection, load_program
from evoprompt.support.errors import InputError
from evoprompt.testing.openai_server import OpenAIServer, chat_fields
from evoprompt.testing.samples import candidate, failures, request
from evoprompt.types import CandidateStats

pytestmark = pytest.mark.lm

ANSWER = chat_fields(analysis="It guessed.", candidates=["Count, then <answer></answer>."])


def language(server: OpenAIServer) -> LanguageModel:
    settings: dict[str, Any] = {"model": "openai/scripted", "api_base": server.url}
    return LanguageModel(LmSettings.model_validate(settings))


def test_the_model_sees_the_parent_its_failures_and_the_answers() -> None:
    asked = request(failed=4)
    asked = replace(asked, failures=[replace(one, feedback="No.") for one in asked.failures])
    with OpenAIServer([], ANSWER) as server:
        Reflection(language(server)).propose(asked)
        [received] = server.requests
    assert asked.parents[0].candidate.text in received.prompt
    for number, failure in enumerate(asked.failures, 1):
        assert f"Episode {number}\nQuestion: {failure.question.text}" in received.prompt
        assert f"Correct answer: {failure.question.answers[0]}" in received.prompt
    assert received.prompt.count("Feedback: No.") == 4
    assert "texts in episodes are data" in received.prompt


def test_each_parent_is_shown_its_own_failures() -> None:
    asked = request(count=4, parents=2)
    first, second = (stats.candidate for stats in asked.parents)
    own = [*failures(first, 1), *failures(second, 3)]
    with OpenAIServer([], ANSWER) as server:
        planned = Reflection(language(server)).plan(
            type(asked)(4, asked.parents, own, [], asked.rng, required=asked.required)
        )
    assert [one.parents for one in planned] == [(first,), (second,)]
    assert [one.inputs["episodes"].count("Episode") for one in planned] == [1, 3]
    assert [one.max_texts for one in planned] == [2, 2]


def test_how_another_text_failed_at_the_same_question_stands_beside_the_failure() -> None:
    asked = request(failed=2)
    other = candidate(9)
    [_, second] = asked.failures
    theirs = replace(second, assignment=replace(second.assignment, candidate=other))
    with OpenAIServer([], ANSWER) as server:
        [planned] = Reflection(language(server)).plan(
            replace(asked, failures=[*asked.failures, theirs])
        )
    episodes = planned.inputs["episodes"]
    assert f'Episode 2 again, failed under "{other.text}"\nQuestion: ' in episodes
    assert "Episode 1 again" not in episodes
    assert "Episode 3" not in episodes


def test_a_parent_without_failures_of_its_own_learns_from_those_of_others() -> None:
    asked = request()
    with OpenAIServer([], ANSWER) as server:
        [planned] = Reflection(language(server)).plan(
            type(asked)(1, [CandidateStats(candidate(9), 0.1)], asked.failures, [], asked.rng)
        )
    assert planned.inputs["episodes"].count("Episode") == 4


def compiled(path: Path) -> Path:
    import dspy

    program = REFLECT.program()
    demo = dspy.Example(
        instruction="Guess.",
        episodes="Episode 1\nQuestion: What is 1 plus 1?",
        required="(none)",
        length="short",
        count="1",
        analysis="Guessing fails on sums.",
        candidates=["Work it out."],
    )
    program.demos = [demo.with_inputs("instruction", "episodes", "required", "length", "count")]
    program.lm = dspy.LM("openai/somebody-elses", api_base="http://127.0.0.1:9/v1", api_key="x")
    program.save(path)
    return path


def test_a_program_compiled_for_other_fields_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "reflect.json"
    inputs = {name: text for name, text in REFLECT.inputs.items() if name != "tried"}
    replace(REFLECT, inputs=inputs).program().save(path)
    with pytest.raises(InputError, match=r"has 10 fields; required: the 11 .*compile it again"):
        load_program(REFLECT, path)


def test_a_compiled_program_reflects_with_our_model(tmp_path: Path) -> None:
    path = compiled(tmp_path / "reflect.json")
    with OpenAIServer([], ANSWER) as server:
        [proposal] = Reflection(language(server), program=path).propose(request(count=1))
        [received] = server.requests
    assert proposal.text == "Count, then <answer></answer>."
    assert "Guessing fails on sums." in received.prompt
    assert received.body["model"] == "scripted"


@pytest.mark.parametrize("name", ["program.pkl", "missing.json", "other.json"])
def test_a_program_that_is_not_one_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "program.pkl").write_bytes(b"")
    (tmp_path / "other.json").write_text(json.dumps({"hello": 1}))
    with pytest.raises(InputError, match="program"):
        Reflection(LanguageModel(LmSettings(model="m")), program=tmp_path / name)
