"""What the pages on models that are not trained show is executed as it stands.

The provider is scripted: the writer has one idea, and the model that is asked does well under it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from provider import openai

import evoprompt
from evoprompt.experiments.cli import main
from evoprompt.optimizer.result import OptimizationResult
from evoprompt.testing.openai_server import chat_fields

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ("frozen.md", "dspy.md", "index.md", "notebooks.md")
IDEA = "Work it out step by step."
NUMBERS = [{"question": f"What is {n} plus {n}?", "answer": str(2 * n)} for n in range(100, 148)]
TRAIN, VALIDATION = NUMBERS[:24], NUMBERS[24:]

pytestmark = [pytest.mark.lm, pytest.mark.endpoint, pytest.mark.report]


def blocks(page: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return [
        one
        for one in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        if "optimi" in one.lower()
    ]


def block(page: str, word: str) -> str:
    (found,) = (one for one in blocks(page) if word in one)
    return found


def writes(model: Callable[[Mapping[str, Any]], str]) -> Callable[[Mapping[str, Any]], str]:
    """Answers of a provider that has the writer and ``model``."""
    numbers = count(1)

    def answer(body: Mapping[str, Any]) -> str:
        if body["model"] == "gpt-4.1-nano":
            return model(body)
        idea = f"{IDEA} Attempt {next(numbers)}."
        return chat_fields(analysis="It guesses.", candidates=[idea])

    return answer


def nobody(body: Mapping[str, Any]) -> str:
    raise AssertionError("the model is a function here")


async def ask_your_model(instruction: str, question: str) -> str:
    (number, _) = re.findall(r"\d+", question)
    return str(2 * int(number)) if IDEA in instruction else "about 7"


GIVEN: dict[str, Any] = {
    "trainset": TRAIN,
    "valset": VALIDATION,
    "program": lambda instruction, example: "right" if IDEA in instruction else "wrong",
    "metric": lambda example, output: float(output == "right"),
    "evoprompt": evoprompt,
}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def executed(text: str, **given: Any) -> Any:
    exec(text, given)
    return given


def test_each_page_is_looked_at_whole() -> None:
    """A call that is added to a page has to be added here."""
    assert [len(blocks(page)) for page in PAGES] == [4, 1, 1, 1]


def test_the_first_call_with_its_folder_and_its_report(tmp_path: Path) -> None:
    given = {"ask_your_model": ask_your_model, "trainset": TRAIN, "valset": VALIDATION}
    with openai(writes(nobody)):
        found = executed(block("frozen.md", "result.curve"), **given)
    result = found["result"]
    assert isinstance(result, OptimizationResult)
    assert result.best.text.startswith(IDEA)
    assert result.value == 1.0
    assert result.writer_cost is not None
    assert result.writer_cost.calls >= 2
    assert result.writer_cost.usd
    assert result.writer_cost.usd > 0
    folder = tmp_path / "runs" / "first"
    with pytest.raises(SystemExit, match="0"):
        main(["report", str(folder)])
    page = (folder / "report.html").read_text(encoding="utf-8")
    for fact in ("failed: 0 of ", "the proposer: 2 calls, ", "the program: its cost"):
        assert fact in page


def test_a_proposer_that_asks_no_language_model() -> None:
    found = executed(block("frozen.md", "SentenceEdit"), **GIVEN)
    assert IDEA in found["result"].best.text
    assert found["result"].value == 1.0


def test_the_call_of_the_index() -> None:
    given = {
        **GIVEN,
        "metric": lambda example, output: (float(output == "right"), "look closer"),
    }
    with openai(writes(nobody)):
        text = block("index.md", "evoprompt.optimize")
        assert executed(text, **given)["result"].value == 1.0


def test_a_callback_that_ends_it_when_the_value_is_good_enough() -> None:
    with openai(writes(nobody)):
        text = block("notebooks.md", "GoodEnough")
        result = executed(text, **GIVEN)["result"]
    assert (result.stopped, result.value) == ("it was interrupted", 1.0)


def test_a_task_behind_a_server() -> None:
    from evoprompt_calculator.task import Calculator

    task = Calculator()
    right = {
        one.text: one.answers[0]
        for split in ("train", "validation")
        for one in task.questions(split)
    }

    def model(body: Mapping[str, Any]) -> str:
        said = "\n".join(str(one["content"]) for one in body["messages"])
        (answer,) = {answer for text, answer in right.items() if text in said}
        return answer if IDEA in said else "I do not know."

    with openai(writes(model)) as server:
        found = executed(block("frozen.md", "TaskAgent("))
        asked = [one.body["model"] for one in server.requests]
    result = found["result"]
    assert IDEA in result.best.text
    assert result.value == 1.0
    assert result.program_cost.calls == asked.count("gpt-4.1-nano") == result.rollouts
    assert result.writer_cost.calls == asked.count("gpt-5-mini")
    assert 0 < result.program_cost.usd < 1.0


@dataclass
class Batch:
    outputs: list[str]
    scores: list[float]
    trajectories: list[str] | None = None
    objective_scores: list[dict[str, float]] | None = None


@dataclass
class Adapter:
    """A program as GEPA takes it."""

    propose_new_texts: None = field(default=None)

    def evaluate(
        self, batch: list[Any], candidate: dict[str, str], capture_traces: bool = False
    ) -> Batch:
        right = IDEA in candidate["system"]
        return Batch(["."] * len(batch), [float(right)] * len(batch), ["."] * len(batch))

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: Batch, components_to_update: list[str]
    ) -> dict[str, Sequence[Mapping[str, Any]]]:
        record = {"Inputs": "a question", "Generated Outputs": ".", "Feedback": "think"}
        return {name: [record] for name in components_to_update}


def test_an_adapter_of_gepa() -> None:
    given = {
        "seed_candidate": {"system": "Answer."},
        "adapter": Adapter(),
        "trainset": TRAIN,
        "valset": VALIDATION,
        "evoprompt": evoprompt,
    }
    with openai(writes(nobody)):
        found = executed(block("frozen.md", "program=adapter"), **given)
    assert found["result"].value == 1.0


def test_a_program_of_dspy(tmp_path: Path) -> None:
    import dspy

    def model(body: Mapping[str, Any]) -> str:
        said = "\n".join(str(one["content"]) for one in body["messages"])
        numbers = re.findall(r"What is (\d+) plus", said)
        return chat_fields(answer=str(2 * int(numbers[-1])) if IDEA in said else "about 7")

    rows = [dspy.Example(**one).with_inputs("question") for one in NUMBERS]
    given = {
        "program": dspy.Predict("question -> answer"),
        "trainset": rows[:24],
        "valset": rows[24:],
    }
    cached, asked_anew = '("openai/gpt-4.1-nano")', '("openai/gpt-4.1-nano", cache=False)'
    text = block("dspy.md", "CoEvolve(").replace(cached, asked_anew)
    with openai(writes(model)):
        found = executed(text, **given)
    result = found["better"].detailed_results
    assert result.value == 1.0
    assert result.program_cost.calls == result.rollouts
    assert result.program_cost.usd > 0
    assert (tmp_path / "better.json").is_file()
