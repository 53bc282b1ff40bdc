"""Programs of DSPy's tutorials under ``CoEvolve``, on a scripted model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import dspy
import pytest
from optimizing import Writes
from scripted_dspy import Asked, scripted

from evoprompt import CoEvolve, OptimizeOptions, Proposal, ProposalRequest, Proposer
from evoprompt.support.errors import EvopromptWarning
from evoprompt.types import TOOL, Trajectory

pytestmark = pytest.mark.lm

PEOPLE = {f"writer{n}": f"city{n}" for n in range(16)}
BOOKS = {f"book{n}": f"writer{n}" for n in range(16)}
PASSAGES = [
    *(f"{book} was written by {writer}." for book, writer in BOOKS.items()),
    *(f"{writer} was born in {city}." for writer, city in PEOPLE.items()),
]


class Remedies(Proposer):
    """Adds the remedy that the feedback on a component asks for; knows nothing else."""

    def __init__(self) -> None:
        self.requests: list[ProposalRequest] = []

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        self.requests.append(request)
        parent = request.parents[0].candidate
        name = request.component
        wanted = sorted(
            {
                one.feedback.partition("required: ")[2]
                for one in request.failures
                if "required: " in one.feedback
            }
        )
        text = f"{parent.components[name]} {wanted[0]}" if wanted else "Do as you like."
        return [Proposal({**parent.components, name: text}, (parent.id,))]


def search(query: str) -> list[str]:
    """BM25's little sister: passages that begin with a word of the query."""
    words = query.split()
    return [one for one in PASSAGES if one.split()[0] in words]


class MultiHop(dspy.Module):  # type: ignore[misc]
    """Two hops over a retriever, as in DSPy's tutorial."""

    def __init__(self) -> None:
        super().__init__()
        self.generate_query = dspy.ChainOfThought("context: list[str], question -> query")
        self.generate_answer = dspy.ChainOfThought("context: list[str], question -> answer")

    def forward(self, question: str) -> Any:
        context: list[str] = []
        for _ in range(2):
            query = self.generate_query(context=context, question=question).query
            context = [*context, *search(query)]
        return self.generate_answer(context=context, question=question)


def hop(system: str, asked: Asked) -> Mapping[str, object]:
    """Follows links only if told to; names the city only if told to be short."""
    book = asked["question"].split()[-1]
    if "`query`" in system:
        known = BOOKS[book] in asked["context"]
        follow = known and "Name the person" in system
        return {"reasoning": "hm", "query": BOOKS[book] if follow else book}
    city = PEOPLE[BOOKS[book]]
    found = f"born in {city}" in asked["context"]
    said = city if "one word" in system else f"I think it is {city}, probably."
    return {"reasoning": "hm", "answer": said if found else "unknown"}


def hop_metric(
    gold: Any, pred: Any, trace: Any = None, pred_name: str | None = None, pred_trace: Any = None
) -> Any:
    found, right = gold.answer in pred.answer, pred.answer == gold.answer
    feedback = "" if right else f"It should be {gold.answer}."
    if pred_name is not None:
        ((_, inputs, outputs),) = pred_trace
        assert trace, "the whole trace comes with a predictor's"
        assert set(inputs) == {"context", "question"}
        if pred_name == "generate_query.predict":
            assert outputs.query
            feedback = "required: Name the person in the query."
        else:
            assert pred_name == "generate_answer.predict"
            feedback = "required: Answer in one word."
    return dspy.Prediction(score=found / 2 + right / 2, feedback=feedback)


QUESTIONS = [
    dspy.Example(question=f"Where was born who wrote book{n}", answer=f"city{n}").with_inputs(
        "question"
    )
    for n in range(16)
]


def test_both_predictors_of_a_multi_hop_program_learn_from_their_own_feedback(
    tmp_path: Path,
) -> None:
    student, teacher = MultiHop(), Remedies()
    before = student.dump_state()
    optimizer = CoEvolve(hop_metric, budget=200, proposer=teacher, track_stats=True)
    with dspy.context(lm=scripted(hop)):
        better = optimizer.compile(student, trainset=QUESTIONS[:8], valset=QUESTIONS[8:])
        assert better(question="Where was born who wrote book3").answer == "city3"
    assert student.dump_state() == before
    assert "Name the person" in better.generate_query.predict.signature.instructions
    assert "one word" in better.generate_answer.predict.signature.instructions

    for request in teacher.requests:
        for failure in request.failures:
            assert failure.question.text.startswith("context: ")
            assert failure.feedback.startswith("required: ")
            said = "query: " if "query" in request.component else "answer: "
            assert said in failure.turns[0].action

    found = better.detailed_results
    assert found.value == 1.0
    cost = found.program_cost
    assert cost.input_tokens + cost.output_tokens == 15 * found.rollouts

    better.save(tmp_path / "better.json")
    loaded = MultiHop()
    loaded.load(tmp_path / "better.json")
    with dspy.context(lm=scripted(hop)):
        assert loaded(question="Where was born who wrote book3").answer == "city3"
    better.save(tmp_path / "whole", save_program=True)
    whole = dspy.load(str(tmp_path / "whole"), allow_pickle=True)
    assert whole.dump_state() == better.dump_state()


def weather(city: str) -> str:
    """Says how the weather is."""
    return f"It is {'rainy' if city.islower() else 'unknown'} in {city}."


def agent(system: str, asked: Asked) -> Mapping[str, object]:
    """An agent that writes cities as the tool's description tells it to."""
    if "next_tool_name" not in system.partition("Outputs will")[0] and "answer" in system:
        return {"reasoning": "hm", "answer": "rain" if "rainy" in asked["observation_0"] else "?"}
    assert "(1) weather, whose description is <desc>" in system
    assert "(2) finish, whose description is <desc>Marks the task as complete." in system
    assert system.count("must be in JSON format") == 1
    if "observation_0" in asked:  # DSPy writes a trajectory as fields in a field
        return {"next_thought": "done", "next_tool_name": "finish", "next_tool_args": {}}
    city = asked["question"].split()[-1]
    city = city.lower() if "in lower case" in system else city
    return {
        "next_thought": "look",
        "next_tool_name": "weather",
        "next_tool_args": {"city": city},
    }


def rain_metric(gold: Any, pred: Any, trace: Any = None) -> Any:
    right = pred.answer == "rain"
    return dspy.Prediction(
        score=float(right), feedback="" if right else "required: Give the city in lower case."
    )


CITIES = [
    dspy.Example(question=f"Does it rain in City{n}", sky=str(n)).with_inputs("question")
    for n in range(16)
]


class OnlyTools(Remedies):
    """Leaves predictors as they are."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        return super().propose(request) if request.component.startswith(TOOL) else []


def test_the_description_of_a_tool_evolves_in_the_instruction_of_a_react_agent(
    tmp_path: Path,
) -> None:
    student = dspy.ReAct("question -> answer", tools=[weather], max_iters=3)
    before = student.react.signature.instructions
    optimizer = CoEvolve(rain_metric, budget=100, proposer=OnlyTools(), track_stats=True)
    with dspy.context(lm=scripted(agent)):
        better = optimizer.compile(student, trainset=CITIES[:8], valset=CITIES[8:])
        assert better(question="Does it rain in Rome").answer == "rain"
        assert asyncio.run(better.acall(question="Does it rain in Rome")).answer == "rain"
    assert better.detailed_results.value == 1.0
    assert set(better.detailed_results.candidates[0].candidate.components) == {
        "react",
        "extract.predict",
        "tool:weather",
    }
    new = "Says how the weather is. Give the city in lower case."
    assert better.tools["weather"].desc == new
    assert better.tools["weather"].func is weather
    assert better.react.signature.instructions == before.replace("Says how the weather is.", new)
    assert student.tools["weather"].desc == "Says how the weather is."
    assert student.react.signature.instructions == before

    better.save(tmp_path / "agent.json")
    loaded = dspy.ReAct("question -> answer", tools=[weather], max_iters=3)
    loaded.load(tmp_path / "agent.json")
    with dspy.context(lm=scripted(agent)):
        assert loaded(question="Does it rain in Rome").answer == "rain"


def test_what_stands_before_the_list_of_tools_evolves_and_the_list_stays() -> None:
    def rewrite(request: ProposalRequest) -> Mapping[str, str]:
        assert "(1) weather" not in request.parents[0].candidate.components["react"]
        return {"react": f"Act, way {request.step}. Cities are written in lower case."}

    optimizer = CoEvolve(rain_metric, budget=100, proposer=Writes(rewrite))
    with dspy.context(lm=scripted(agent)):
        better = optimizer.compile(
            dspy.ReAct("question -> answer", tools=[weather], max_iters=3),
            trainset=CITIES[:8],
            valset=CITIES[8:],
        )
    written = better.react.signature.instructions
    assert written.startswith("Act, way ")
    assert "\n\n(1) weather, whose description is <desc>Says how the weather is.</desc>" in written


class Toolbox(dspy.Module):  # type: ignore[misc]
    """Its tools are an input, so no instruction holds their descriptions."""

    def __init__(self) -> None:
        super().__init__()
        self.tools = [dspy.Tool(weather)]
        self.pick = dspy.Predict("question, tools: list[dspy.Tool] -> city")

    def forward(self, question: str) -> Any:
        return self.pick(question=question, tools=self.tools)


def test_a_description_that_is_saved_with_no_predictor_is_warned_of() -> None:
    def pick(system: str, asked: Asked) -> Mapping[str, object]:
        city = asked["question"].split()[-1]
        return {"city": city.lower() if "in lower case" in asked["tools"] else city}

    def metric(gold: Any, pred: Any, trace: Any = None) -> Any:
        return dspy.Prediction(
            score=float(pred.city.islower()), feedback="required: Give the city in lower case."
        )

    student = Toolbox()
    optimizer = CoEvolve(metric, budget=100, proposer=OnlyTools())
    with (
        dspy.context(lm=scripted(pick)),
        pytest.warns(EvopromptWarning, match="descriptions of weather are no part"),
    ):
        better = optimizer.compile(student, trainset=CITIES[:8], valset=CITIES[8:])
    assert "lower case" in better.tools[0].desc
    assert student.tools[0].desc == "Says how the weather is."


class Sort(dspy.Signature):  # type: ignore[misc]
    """Sort the message."""

    message: str = dspy.InputField()
    label: Literal["spam", "ham"] = dspy.OutputField()


MESSAGES = [
    dspy.Example(message=f"{'buy' if n % 2 else 'dear'} {n}", label="spam" if n % 2 else "ham")
    .with_inputs("message")
    for n in range(24)
]  # fmt: skip


def test_an_answer_that_cannot_be_parsed_scores_nothing_and_says_so() -> None:
    threads: set[str] = set()

    def classify(system: str, asked: Asked) -> str | Mapping[str, object]:
        threads.add(threading.current_thread().name)
        right = "spam" if asked["message"].startswith("buy") else "ham"
        return {"label": right} if "required format" in system else f"I would say {right}."

    failures: list[Trajectory] = []

    def write(request: ProposalRequest) -> Mapping[str, str]:
        failures.extend(request.failures)
        text = request.parents[0].candidate.text
        return {request.component: f"{text} Keep to the required format."}

    def exact(example: Any, pred: Any, trace: Any = None) -> bool:
        return bool(example.label == pred.label)

    optimizer = CoEvolve(
        exact, budget=100, proposer=Writes(write), options=OptimizeOptions(max_concurrency=3)
    )
    told = pytest.warns(EvopromptWarning, match="failed: .*, first because The answer could not be")
    with dspy.context(lm=scripted(classify)), told:
        better = optimizer.compile(dspy.Predict(Sort), trainset=MESSAGES[:12], valset=MESSAGES[12:])
        assert better(message="buy it").label == "spam"
    (failure, *others) = failures
    assert all("could not be parsed" in one.feedback for one in others)
    assert failure.reward == 0.0
    assert "the fields label" in failure.feedback
    assert failure.turns[0].action.startswith("I would say ")
    assert 1 < len([name for name in threads if name.startswith("evoprompt-rollout")]) <= 3
