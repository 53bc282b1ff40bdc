"""What cannot work is told in one line with a remedy, and what was found until then is kept."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any
from urllib.error import URLError

import optimizing
import pytest
from optimizing import SEED, TRAIN, VALIDATION, Writes

import evoprompt
from evoprompt import EvopromptWarning, InputError, OptimizeOptions, ProposalRequest, Proposer
from evoprompt.log.evaluation import Score
from evoprompt.optimizer.journal import JOURNAL
from evoprompt.support.errors import StateError
from evoprompt.testing.openai_server import Answer, Status


def counting(request: ProposalRequest) -> str:
    """A text that was never there."""
    return f"Count up to {request.step} before you answer, and then {request.rng.random()}."


def optimize(**given: Any) -> evoprompt.OptimizationResult:
    def program(instruction: str, example: str) -> str:
        return "an answer"

    usual = {"metric": lambda example, output: 0.5, "program": program, "budget": 100}
    found: evoprompt.OptimizationResult = optimizing.learn(
        **{"proposer": Writes(counting), "valset": VALIDATION[:12], **usual, **given}
    )
    return found


def one_line(text: object) -> str:
    assert "\n" not in str(text)
    assert "required: " in str(text)
    return str(text)


def refused(**given: Any) -> str:
    with pytest.raises(InputError) as raised:
        optimize(**given)
    return one_line(raised.value)


def raising(*given: object) -> Any:
    raise KeyError("temprature")


class Judge:
    """A class of which no object was made."""

    def __init__(self, example: object, output: object) -> None:
        pass


class Adapter(Judge):
    """The same, with the methods of an adapter for GEPA."""

    def evaluate(self, batch: object, candidate: object, capture_traces: bool = False) -> Any:
        raise AssertionError("called without an object")

    def make_reflective_dataset(self, candidate: object, batch: object, names: object) -> Any:
        raise AssertionError("called without an object")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"program": Adapter, "metric": None}, "program is the class Adapter; .*program=Adapter"),
        ({"program": Adapter, "proposer": "reflection"}, "^program is the class Adapter"),
        ({"program": Judge}, r"program is the class Judge; required: .*; write program=Judge\("),
        ({"metric": Judge}, r"metric is the class Judge; required: .*; write metric=Judge\("),
        ({"proposer": Writes}, r"^proposer is <class .*Writes'>.*; required: Proposer; make one"),
        ({"proposer": Writes, "lm": "openai/gpt-5-mini"}, "^proposer is <class .*; make one"),
        ({"proposer": "reflection", "lm": Judge}, r"^lm is the class Judge; .*; write lm=Judge\("),
        ({"trainset": []}, "the trainset is empty"),
        ({"valset": "a question"}, "the valset is a str"),
        ({"trainset": {"question": TRAIN}}, r"of a pandas.DataFrame to_dict\('records'\)"),
        ({"seed_instruction": " "}, "is empty"),
        ({"metric": lambda example, output: "good"}, "returned 'good' for valset/"),
        ({"metric": raising}, "^the metric raised KeyError: 'temprature' for .*: a number or a S"),
        ({"metric": lambda example, output: {"reward": 1}}, "returned {'reward': 1} for valset/"),
        ({"metric": lambda one: 1.0}, r"metric takes \(one\); required: metric\(example, output\)"),
        ({"program": raising}, "KeyError: 'temprature'"),
        ({"program": lambda instruction, example: None}, "it returned None"),
        ({"program": lambda text: text}, r"required: program\(instruction, example\)"),
        ({"program": "openai:gpt-4.1-nano"}, r"required: a function of two .* as Endpoint\(...\)"),
        ({"budget": 5}, "budget is 5 rollouts; required: at least 8"),
        ({"budget": 1.5}, r"budget is 1\.5; required: a whole number"),
        ({"proposer": "reflection"}, "lm is not given, and the proposer 'reflection' asks"),
        ({"proposer": object()}, "required: Proposer"),
        ({"proposer": "sentence-edit"}, "sentences of the task's bank"),
        ({"seconds": float("nan")}, "seconds is "),
        ({"patience": False}, "patience is "),
        ({"seed": "0"}, "seed is "),
        ({"seed": -1}, "seed is -1: .* greater than or equal to 0"),
        ({"required": "{question}"}, "required is "),
    ],
    ids=lambda one: str(one)[:30],
)
def test_what_cannot_be_is_named_with_a_remedy(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as raised:
        optimize(**given)
    one_line(raised.value)


@pytest.mark.lm
def test_the_parameters_are_few_and_a_wrong_option_is_told_what_was_meant() -> None:
    for call in (evoprompt.optimize, evoprompt.CoEvolve):
        assert len(set(signature(call).parameters) - {"options", "callbacks"}) <= 10
    with pytest.raises(InputError, match="unknown setting 'patiense'; did you mean 'patience'"):
        OptimizeOptions(patiense=3)  # type: ignore[call-arg]
    with pytest.raises(InputError, match=r"options is \{'seed': 1\}; required: OptimizeOptions"):
        evoprompt.optimize(SEED, TRAIN, program=None, options={"seed": 1})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="resume is given without a directory"):
        evoprompt.optimize(SEED, TRAIN, program=None, options=OptimizeOptions(resume=True))


def test_examples_that_are_in_both_sets_are_counted() -> None:
    with pytest.warns(EvopromptWarning, match="^3 of the 15 validation examples .*required: other"):
        optimize(valset=[*TRAIN[:3], *VALIDATION[:12]])
    rows = [{"question": "What is seen?", "picture": object()} for _ in range(42)]
    optimize(trainset=rows[:30], valset=rows[30:])  # they only read alike
    with pytest.warns(EvopromptWarning, match="^2 of the 12 validation"):
        optimize(trainset=rows[:30], valset=[dict(one) for one in rows[28:40]])


@pytest.mark.parametrize("answer", [None, ["a text"], {"instruction": "a text"}])
def test_a_proposer_that_returns_no_proposals_is_told_what_to_write(answer: object) -> None:
    class Bare(Proposer):
        def propose(self, request: ProposalRequest) -> Any:
            return answer

    with pytest.warns(EvopromptWarning):
        assert "Proposal.of(text, request.parents[0].candidate)" in refused(proposer=Bare())


def test_a_program_whose_failure_names_a_remedy_is_given_no_second_one() -> None:
    def program(instruction: str, example: str) -> str:
        raise InputError("no such model; required: one that is served; check its name")

    said = refused(program=program)
    assert said.count("required: ") == 1
    assert "the last 12 rollouts, at last: InputError: no such model" in said


def test_a_metric_whose_failure_names_a_remedy_is_given_no_second_one() -> None:
    def metric(example: str, output: str) -> float:
        raise StateError("no such file; required: the one with the answers; name it")

    said = refused(metric=metric)
    assert said.count("required: ") == 1
    assert "the metric raised StateError: no such file for valset/" in said
    assert said.endswith("; required: the one with the answers; name it")


def test_a_proposer_whose_failure_names_a_remedy_is_given_no_second_one() -> None:
    def write(request: ProposalRequest) -> str:
        raise StateError("no such file; required: the one with the ideas; name it")

    with pytest.warns(EvopromptWarning, match="the proposer failed: StateError: no such file"):
        said = refused(proposer=Writes(write))
    assert said.count("required: ") == 1
    assert "all 10 requests to the proposer failed; remove the cause" in said


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (SEED, r"refused \(duplicate: the text equals"),
        ("", "it returned no text"),
    ],
)
def test_a_proposer_whose_texts_are_all_refused(text: str, why: str) -> None:
    message = f"no proposal was accepted in 10 iterations.*{why}"
    with pytest.warns(EvopromptWarning, match=message) as warned:
        result = optimize(proposer=Writes(lambda request: text))
    assert len(warned) == 1
    one_line(warned[0].message)
    assert result.best.text == SEED
    assert result.stopped.startswith("no proposal was accepted in 10 iterations in a row")
    assert "CandidateStats" not in repr(result)  # it is printed in short


@pytest.mark.parametrize("bad", ["good", None, ZeroDivisionError()], ids=repr)
def test_a_metric_that_goes_wrong_later_ends_it_and_loses_nothing(
    bad: object, tmp_path: Path
) -> None:
    calls = 0

    def metric(example: str, output: str) -> Any:
        nonlocal calls
        calls += 1
        if calls > 30 and isinstance(bad, Exception):
            raise bad
        return 0.5 if calls <= 30 else bad

    with pytest.warns(EvopromptWarning, match="stopped: the metric"):
        result = optimize(metric=metric, directory=tmp_path)
    one_line(result.stopped)
    assert result.value == 0.5
    calls = -1000
    assert optimize(metric=metric, resume=tmp_path).rollouts > result.rollouts
    assert -1000 < calls <= -1000 + 100 - 30


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "always"])
@pytest.mark.parametrize(
    "bad", [TimeoutError("judge"), URLError("reset by peer"), Score(float("nan"))], ids=repr
)
def test_a_judge_s_bad_moment_costs_no_more_than_its_own_reward(
    bad: object, lasting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: set[str] = set()

    def metric(example: str, output: str) -> Any:
        is_bad = example == VALIDATION[3] and (lasting or example not in asked)
        asked.add(example)
        if is_bad and isinstance(bad, Exception):
            raise bad
        return bad if is_bad else 0.5

    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    result = optimize(metric=metric, patience=2)
    assert not result.stopped.startswith("the metric")
    assert result.value == 0.5
    again = isinstance(bad, Exception) and not lasting
    assert (result.failures.failed == 0) == again
    assert again or "the metric" in one_line(result.failures.first)


def test_a_judge_that_says_nonsense_once_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: set[str] = set()

    def metric(example: str, output: str) -> float:
        first = example not in asked
        asked.add(example)
        return float("no number" if first and example in VALIDATION[3:5] else 0.5)

    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    result = optimize(metric=metric, patience=2)
    assert (result.value, result.failures.failed) == (0.5, 0)


def served(answer: Answer, **given: Any) -> evoprompt.OptimizationResult:
    from provider import openai

    from evoprompt.optimizer.endpoint import Endpoint

    async def no_pause(seconds: float) -> None:
        """Tenacity's, between attempts."""

    with openai(answer), pytest.MonkeyPatch.context() as patch:
        patch.setattr("asyncio.sleep", no_pause)
        return optimize(program=Endpoint("openai:gpt-4.1-nano"), **given)


class Until:
    """A server that answers so often, and then with an error."""

    def __init__(self, status: Status, after: int) -> None:
        self.asked, self._status, self._after = 0, status, after

    def __call__(self, body: Mapping[str, Any]) -> str | Status:
        self.asked += 1
        return "an answer" if self.asked <= self._after else self._status


STATUSES: Sequence[tuple[Status, str]] = [
    (Status(401, message="Incorrect API key"), "check OPENAI_API_KEY"),
    (Status(400, message="filtered by the content policy"), "see what it objects to"),
    (Status(429, message="quota exceeded"), "a quota and a rate that allow it"),
]


@pytest.mark.endpoint
@pytest.mark.parametrize(("status", "remedy"), STATUSES, ids=lambda one: str(one)[:18])
@pytest.mark.filterwarnings("ignore:of the rollouts until now", "ignore:of all rollouts")
def test_a_model_that_refuses_is_asked_again_when_the_cause_is_gone(
    status: Status, remedy: str, tmp_path: Path
) -> None:
    never = Until(status, 0)
    with pytest.raises(InputError, match=f"{status.code}") as raised:
        served(never, directory=tmp_path / "first", max_concurrency=8)
    assert (never.asked == 1) == (status.code == 401)
    said = one_line(raised.value)
    assert remedy in said
    assert status.message in said
    mended = served(Until(status, 10_000), resume=tmp_path / "first", max_concurrency=8)
    assert mended.rollouts > 90
    if status.code != 429:
        with pytest.warns(EvopromptWarning, match="stopped: the program failed in each of the las"):
            later = served(Until(status, 30), directory=tmp_path / "later")
        assert remedy in one_line(later.stopped)
        journal = (tmp_path / "later" / JOURNAL).read_bytes()
        assert served(Until(status, 10_000), resume=tmp_path / "later").rollouts > 90
        assert (tmp_path / "later" / JOURNAL).read_bytes().startswith(journal)


@pytest.mark.endpoint
def test_a_server_that_is_not_there_is_told_at_the_first_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from evoprompt.optimizer.endpoint import Endpoint

    async def forbidden(seconds: float) -> None:
        raise AssertionError(f"it waits {seconds} s to ask again")

    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    monkeypatch.setattr("asyncio.sleep", forbidden)
    said = refused(program=Endpoint("mine", url))
    assert url in said
    assert "does not answer" in said
    assert "start it, or check the address" in said


@pytest.mark.endpoint
def test_a_row_without_a_question_is_not_sent_with_its_answer() -> None:
    from evoprompt.optimizer.endpoint import Endpoint
    from evoprompt.testing.openai_server import OpenAIServer

    rows: list[Any] = [{"text": f"Meeting {number}", "answer": "ham"} for number in range(40)]
    with OpenAIServer(default="ham") as server:
        program: Any = Endpoint("mine", server.url)
        with pytest.raises(InputError, match="asks nothing"):
            evoprompt.optimize(
                "Classify.",
                rows,
                lambda row, output: float(row["answer"] == output),
                program=program,
                lm=lambda prompt: "",
                budget=40,
            )
    assert server.requests == []
