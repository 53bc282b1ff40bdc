"""What cannot work is told in one line with a remedy, and what was found until then is kept."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import optimizing
import pytest

import evoprompt
from evoprompt import (
    EvopromptWarning,
    InputError,
    OptimizeOptions,
    Proposal,
    ProposalRequest,
    Proposer,
)
from evoprompt.agents import Episode
from evoprompt.agents.tasks import Task
from evoprompt.evaluation import Score
from evoprompt.optimizer.journal import JOURNAL
from evoprompt.testing.openai_server import Answer, Status
from evoprompt.types import Question

TRAIN = [f"train question {n}" for n in range(30)]
VALIDATION = [f"another question {n}" for n in range(12)]
SEED = "You answer questions."


class Counting(Proposer):
    """Writes a text that was never there."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        text = f"Count up to {request.step} before you answer, and then {request.rng.random()}."
        return [Proposal.of(text, request.parents[0].candidate)]


def optimize(**given: Any) -> evoprompt.OptimizationResult:
    settings: dict[str, Any] = {
        "metric": lambda example, output: 0.5,
        "program": lambda instruction, example: "an answer",
        "valset": VALIDATION,
        "proposer": Counting(),
        "budget": 100,
        "max_concurrency": 1,
        "progress": False,
        **given,
    }
    return optimizing.optimize(
        settings.pop("seed_instruction", SEED), settings.pop("trainset", TRAIN), **settings
    )


def one_line(text: str) -> str:
    assert "\n" not in text
    assert "required: " in text
    return text


def refused(**given: Any) -> str:
    with pytest.raises(InputError) as raised:
        optimize(**given)
    return one_line(str(raised.value))


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("seconds", float("nan")),
        ("seconds", -1),
        ("perfect", "much"),
        ("patience", -1),
        ("patience", False),
        ("seed", "0"),
        ("seeds", 0),
        ("required", "{question}"),
    ],
)
def test_a_setting_that_cannot_be_is_named(name: str, given: object) -> None:
    assert f"the options cannot be used: {name} is " in refused(**{name: given})


def test_the_parameters_are_few_and_a_wrong_option_is_told_what_was_meant() -> None:
    for call in (evoprompt.optimize, evoprompt.CoEvolve):
        assert len(set(signature(call).parameters) - {"options"}) <= 10
    with pytest.raises(InputError, match="unknown setting 'patiense'; did you mean 'patience'"):
        OptimizeOptions(patiense=3)
    with pytest.raises(InputError, match=r"options is \{'seed': 1\}; required: OptimizeOptions"):
        evoprompt.optimize(SEED, TRAIN, program=None, options={"seed": 1})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"budget is 1\.5; required: a whole number"):
        optimize(budget=1.5)
    with pytest.raises(InputError, match="resume is given without a directory"):
        evoprompt.optimize(SEED, TRAIN, program=None, options=OptimizeOptions(resume=True))


class Blank(Task):
    """A task that is never asked."""

    seed_instructions = (SEED,)

    def questions(self, split: str) -> Sequence[Question]:
        raise NotImplementedError

    def score(self, episode: Episode, question: Question) -> Score:
        raise NotImplementedError


def test_a_program_that_is_no_function_is_told_how_to_become_one() -> None:
    said = refused(program="openai:gpt-4.1-nano")
    assert said.startswith("program is 'openai:gpt-4.1-nano'; required: a function of two")
    assert said.endswith("is one as Endpoint(...) of evoprompt.optimizer.endpoint")
    assert "is one as TaskAgent(task, Endpoint(...))" in refused(program=Blank())


def test_a_function_of_another_number_of_arguments_is_refused_before_it_is_called() -> None:
    said = refused(program=lambda instruction: instruction)
    assert said == "program takes (instruction); required: program(instruction, example)"
    said = refused(metric=lambda example, output, trace: 1.0)
    assert said == "metric takes (example, output, trace); required: metric(example, output)"


class Table(dict[str, list[str]]):
    """As pandas has them: its ``list`` is one of its columns."""

    def iterrows(self) -> None:
        raise AssertionError("it is not read")


def test_a_table_is_no_list_of_examples() -> None:
    table = Table(question=TRAIN)
    assert refused(trainset=table).endswith("of a pandas.DataFrame to_dict('records')")


def test_examples_that_are_in_both_sets_are_counted() -> None:
    with pytest.warns(EvopromptWarning, match="^3 of the 15 validation examples are in the train"):
        optimize(valset=[*TRAIN[:3], *VALIDATION])
    with pytest.warns(EvopromptWarning, match="^30 of the 30 .*required: others"):
        optimize(valset=TRAIN)


def test_examples_that_only_read_alike_are_not_in_both_sets() -> None:
    rows = [
        {"question": "What is seen?", "picture": object(), "answer": "a cat"} for _ in range(42)
    ]
    optimize(trainset=rows[:30], valset=rows[30:])
    with pytest.warns(EvopromptWarning, match="^2 of the 12 validation"):
        optimize(trainset=rows[:30], valset=[dict(one) for one in rows[28:40]])


def written(text: str) -> Any:
    class Writer(Proposer):
        def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
            return [Proposal.of(text, request.parents[0].candidate)] if text else []

    return Writer()


@pytest.mark.parametrize("answer", ["a text", None, ["a text"], {"instruction": "a text"}])
def test_a_proposer_that_returns_no_proposals_is_told_what_to_write(answer: object) -> None:
    class Bare(Proposer):
        def propose(self, request: ProposalRequest) -> Any:
            return answer

    with pytest.warns(EvopromptWarning), pytest.raises(InputError) as caught:
        optimize(proposer=Bare())
    said = one_line(str(caught.value))
    assert "a text" in said or "None" in said
    assert "Proposal.of(text, request.parents[0].candidate)" in said


def test_a_program_whose_failure_names_a_remedy_is_given_no_second_one() -> None:
    def program(instruction: str, example: str) -> str:
        raise InputError("no such model; required: one that is served; check its name")

    with pytest.raises(InputError) as caught:
        optimize(program=program)
    said = one_line(str(caught.value))
    assert said.count("required: ") == 1
    assert "the last 12 rollouts, at last: InputError: no such model" in said


def test_a_result_is_printed_in_short() -> None:
    result = optimize(patience=0)
    assert repr(result).startswith("OptimizationResult(best=Candidate(id='c0'")
    assert "CandidateStats" not in repr(result)
    assert "stopped='no progress in 0 iterations'" in repr(result)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("I'm sorry, but I can't help with that.", r"refused \(meta_talk: the text declines"),
        (SEED, r"refused \(duplicate: the text equals"),
        ("", "it returned no text"),
    ],
)
def test_a_proposer_whose_texts_are_all_refused(text: str, why: str) -> None:
    with pytest.warns(EvopromptWarning, match=f"could be tried in 10 iterations.*{why}") as warned:
        result = optimize(proposer=written(text))
    assert len(warned) == 1
    one_line(str(warned[0].message))
    assert result.best.text == SEED
    assert result.value == 0.5
    assert result.stopped.startswith("the proposer wrote nothing that could be tried 10 times")


def test_a_program_that_says_nothing_is_told_of_early_and_at_the_end() -> None:
    with pytest.warns(EvopromptWarning, match="first because the answer was empty") as told:
        result = optimize(program=lambda instruction, example: " ")
    first, last = (str(one.message) for one in told)
    assert first.startswith("of the rollouts until now failed: ")
    assert f"of all rollouts failed: {result.rollouts} of {result.rollouts}, first" in last
    assert result.failures.failed == result.failures.of == result.rollouts
    one_line(first)


@pytest.mark.parametrize(
    "bad",
    ["good", None, ZeroDivisionError()],
    ids=repr,
)
def test_a_metric_that_goes_wrong_later_ends_it_and_loses_nothing(
    bad: object, tmp_path: Path
) -> None:
    calls = 0

    def metric(example: str, output: str) -> Any:
        nonlocal calls
        calls += 1
        if calls <= 30:
            return 0.5
        if isinstance(bad, Exception):
            raise bad
        return bad

    with pytest.warns(EvopromptWarning, match="stopped: the metric"):
        result = optimize(metric=metric, directory=tmp_path)
    one_line(result.stopped)
    assert result.value == 0.5
    assert len((tmp_path / JOURNAL).read_bytes().splitlines()) > 30  # answers of the proposer, too
    calls = -1000
    assert optimize(metric=metric, resume=tmp_path).rollouts > result.rollouts
    assert -1000 < calls <= -1000 + 100 - 30


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "always"])
@pytest.mark.parametrize(
    "bad", [ConnectionError("reset"), TimeoutError("judge"), float("nan"), Score(float("nan"))]
)
def test_a_judge_s_bad_moment_costs_no_more_than_its_own_reward(
    bad: object, lasting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: dict[str, int] = {}

    def metric(example: str, output: str) -> Any:
        calls[example] = calls.get(example, 0) + 1
        if example != VALIDATION[3] or (calls[example] > 1 and not lasting):
            return 0.5
        if isinstance(bad, Exception):
            raise bad
        return bad

    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    result = optimize(metric=metric, patience=2)
    assert not result.stopped.startswith("the metric")
    assert result.value == 0.5
    again = isinstance(bad, Exception) and not lasting
    assert (result.failures.failed == 0) == again
    assert again or "the metric" in result.failures.first


def served(answer: Answer, **given: Any) -> evoprompt.OptimizationResult:
    from provider import openai

    from evoprompt.optimizer.endpoint import Endpoint

    with openai(answer), pytest.MonkeyPatch.context() as patch:
        patch.setattr("asyncio.sleep", no_pause)
        return optimize(program=Endpoint("openai:gpt-4.1-nano"), **given)


async def no_pause(seconds: float) -> None:
    """Tenacity's, between attempts."""


def answering(
    status: Status, after: int, asked: list[int] | None = None
) -> Callable[[Mapping[str, Any]], str | Status]:
    """A server that answers so often, and then with an error; ``asked`` grows with each request."""
    numbers = [] if asked is None else asked

    def answer(body: Mapping[str, Any]) -> str | Status:
        numbers.append(len(numbers) + 1)
        return "an answer" if numbers[-1] <= after else status

    return answer


STATUSES = [
    (Status(401, message="Incorrect API key"), "check OPENAI_API_KEY"),
    (Status(404, message="no such model"), "check the name gpt-4.1-nano"),
    (Status(400, message="filtered by the content policy"), "see what it objects to"),
    (Status(429, message="quota exceeded"), "a quota and a rate that allow it"),
    (Status(503, message="overloaded"), "start it, or check the address"),
]


@pytest.mark.endpoint
@pytest.mark.parametrize(("status", "remedy"), STATUSES, ids=lambda one: str(one)[:18])
def test_a_model_that_refuses_is_asked_again_when_the_cause_is_gone(
    status: Status, remedy: str, tmp_path: Path
) -> None:
    asked: list[int] = []
    with pytest.raises(InputError, match=f"{status.code}") as raised:
        served(answering(status, after=0, asked=asked), directory=tmp_path, max_concurrency=8)
    assert len(asked) == 1 or status.code not in (401, 404)
    said = one_line(str(raised.value))
    assert remedy in said
    assert status.message in said
    result = served(answering(status, after=10_000), resume=tmp_path)
    assert result.value == 0.5
    assert result.rollouts > 90


@pytest.mark.endpoint
@pytest.mark.parametrize(("status", "remedy"), STATUSES[:4:3], ids=lambda one: str(one)[:18])
def test_a_model_that_refuses_later_ends_it_with_what_was_found(
    status: Status, remedy: str, tmp_path: Path
) -> None:
    ended = pytest.warns(
        EvopromptWarning, match="stopped: the program failed in each of the last 20"
    )
    early = pytest.warns(EvopromptWarning, match="of the rollouts until now failed")
    with pytest.warns(EvopromptWarning, match="of all rollouts failed: 20 of 50"), ended, early:
        result = served(answering(status, after=30), directory=tmp_path)
    assert remedy in one_line(result.stopped)
    assert result.value == 0.5
    journal = (tmp_path / JOURNAL).read_bytes()
    longer = served(answering(status, after=10_000), resume=tmp_path)
    assert longer.value == 0.5
    assert longer.rollouts > 90
    assert (tmp_path / JOURNAL).read_bytes().startswith(journal)


@pytest.mark.endpoint
def test_a_server_that_is_not_there_is_told_at_the_first_request(tmp_path: Path) -> None:
    from evoprompt.optimizer.endpoint import Endpoint

    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("asyncio.sleep", forbidden)
        with pytest.raises(InputError, match="does not answer") as raised:
            optimize(program=Endpoint("mine", url), directory=tmp_path)
    said = one_line(str(raised.value))
    assert url in said
    assert "start it, or check the address" in said


async def forbidden(seconds: float) -> None:
    """A pause before another attempt."""
    raise AssertionError(f"it waits {seconds} s to ask again")
