"""What the language model is really asked, at default settings, by every front door of its own.

``attach`` is in the contract of the adapters; ``evoprompt run`` attaches, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import dspy
import pytest
from scripted_dspy import Asked, scripted

from evoprompt import CoEvolve, OptimizeOptions, optimize
from evoprompt.log.evaluation import Score
from evoprompt.testing.openai_server import OpenAIServer, chat_fields

pytestmark = pytest.mark.lm

_FIELD = re.compile(r"\[\[ ## (\w+) ## \]\]\n(.*?)(?=\n\n\[\[ ##|\n\nRespond with|\Z)", re.DOTALL)
NUMBER = iter(range(1, 10**6))


def fields(prompt: str) -> dict[str, str]:
    """The input fields of a request to a writer."""
    asked = prompt[prompt.rindex("[[ ## instruction ## ]]") :]
    return dict(_FIELD.findall(asked))


def writing(text: str) -> Any:
    """A writer that never writes the same twice."""
    return lambda body: chat_fields(
        analysis="It guessed.", candidates=[f"{text} Be careful, way {next(NUMBER)} of many."]
    )


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer([], writing("Answer inside <answer> and </answer>.")) as running:
        yield running


def asked_of(server: OpenAIServer) -> list[str]:
    """The requests, without the one that only tries whether there is an answer."""
    return [one.prompt for one in server.requests if "## instruction ##" in one.prompt]


def lm(server: OpenAIServer) -> dict[str, str]:
    return {"model": "openai/scripted", "api_base": server.url}


def classify(instruction: str, example: Mapping[str, Any]) -> str:
    """Sorts a letter of a customer under one label."""
    return "invoice"


def label(example: Mapping[str, Any], output: str) -> Score:
    """1 for the right label, which is one of four.

    Args:
        example: a letter.
        output: the label.
    """
    right = float(output == example["label"])
    return Score(right, "" if right else f"Letters on {example['about']} are sorted as Q7.")


PATIENCE = 50
"""Iterations; without it, an optimization ends after ten in which every reward is 0, as here."""

LETTERS = [{"question": f"Letter {n}", "about": f"a{n}", "label": "Q7"} for n in range(40)]


def test_optimize_says_that_the_model_stays_and_that_facts_may_be_written_down(
    server: OpenAIServer,
) -> None:
    options = OptimizeOptions(patience=PATIENCE)
    optimize(
        "Sort the letter.",
        LETTERS,
        label,
        program=classify,
        lm=lm(server),
        budget=120,
        options=options,
    )
    first, *others = asked_of(server)
    told = fields(first)
    assert "being trained" not in first
    assert "Its model stays as it is" in first
    assert "Write down every fact about the task" in first
    assert "must not mention" not in first
    assert told["setting"] == (
        "What is rewritten: the text that is given to the program `classify`: Sorts a letter of "
        "a customer under one label.\n\n"
        "What the score rewards:\n`label`: 1 for the right label, which is one of four."
    )
    assert "are sorted as Q7" in told["episodes"]
    assert told["length"].startswith("at most 1024 tokens")
    assert re.fullmatch(r"- the instruction above, score 0\.00, measured \d+ times", told["tried"])
    assert any("given up, score 0.00" in fields(prompt)["tried"] for prompt in others)


def weather(city: str) -> str:
    """Says how the weather is."""
    return f"It is unknown in {city}."


def agent(system: str, asked: Asked) -> Mapping[str, object]:
    if "next_tool_name" not in system.partition("Outputs will")[0] and "answer" in system:
        return {"reasoning": "hm", "answer": "?"}
    if "observation_0" in asked:
        return {"next_thought": "done", "next_tool_name": "finish", "next_tool_args": {}}
    return {"next_thought": "", "next_tool_name": "weather", "next_tool_args": {"city": "Rome"}}


def rain(gold: Any, pred: Any, trace: Any = None) -> Any:
    """1 where the answer is the one word rain."""
    return dspy.Prediction(score=float(pred.answer == "rain"), feedback="It rains.")


def test_coevolve_says_what_each_component_is_and_shows_the_others() -> None:
    cities = [dspy.Example(question=f"Rain in City{n}?").with_inputs("question") for n in range(20)]
    student = dspy.ReAct("question -> answer: str", tools=[weather], max_iters=2)
    with OpenAIServer([], writing("Look at the sky first.")) as server:
        options = OptimizeOptions(max_concurrency=1, patience=PATIENCE)
        optimizer = CoEvolve(rain, lm=lm(server), budget=120, options=options)
        with dspy.context(lm=scripted(agent)):
            optimizer.compile(student, trainset=cities[:10], valset=cities[10:])
        asked = {
            name: next(
                prompt
                for prompt in asked_of(server)
                if fields(prompt)["setting"].startswith(f"What is rewritten: the {name}")
            )
            for name in (
                "description of the tool `weather`",
                "instruction of the predictor `react`",
                "instruction of the predictor `extract.predict`",
            )
        }
    about_tool, about_react, about_extract = asked.values()
    assert "an instruction is the description of the tool `weather`" in about_tool
    assert "an instruction is the description" not in about_react
    assert fields(about_tool)["instruction"] == "Says how the weather is."
    for prompt in asked.values():
        setting = fields(prompt)["setting"]
        assert '{"name": "weather", "description": "Says how the weather is."' in setting
        assert "`rain`: 1 where the answer is the one word rain." in setting
        assert "being trained" not in prompt
    assert "Its inputs are:\n1. `question` (str)" in fields(about_extract)["setting"]
    assert (
        "Its outputs are:\n1. `reasoning` (str): \n2. `answer` (str)"
        in (fields(about_extract)["setting"])
    )
    others = fields(about_react)["setting"].partition("stay as they are:\n")[2]
    assert "- the description of the tool `weather`: Says how the weather is." in others
