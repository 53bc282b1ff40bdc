"""The language model against a real HTTP server that misbehaves by script."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from waiting import PATIENCE

from evoprompt.errors import InputError, StateError
from evoprompt.lm import (
    SPENDING_FILE,
    Answer,
    BudgetError,
    BudgetSettings,
    Call,
    Charge,
    DeadlineError,
    LanguageModel,
    LmError,
    LmSettings,
    Prices,
    ReplayError,
    SpendTracker,
)
from evoprompt.testing.openai_server import (
    Answer as Scripted,
)
from evoprompt.testing.openai_server import (
    Body,
    Drip,
    Drop,
    OpenAIServer,
    Status,
    Text,
    chat_fields,
)

pytestmark = pytest.mark.lm

GOOD = chat_fields(words=["one", "two"])
AT_ONCE = {"Retry-After": "0"}


def program() -> Any:
    import dspy

    fields = {"topic": (str, dspy.InputField()), "words": (list[str], dspy.OutputField())}
    return dspy.Predict(dspy.Signature(fields, "Write words about a topic."))


def call(topic: str = "sea") -> Call:
    return Call(program, {"topic": topic})


def model(server: OpenAIServer, **changes: Any) -> LanguageModel:
    return LanguageModel(
        LmSettings.model_validate(
            {"model": "openai/scripted", "api_base": server.url, "max_tokens": 100, **changes}
        )
    )


def ask(script: Sequence[Scripted], default: Scripted = GOOD, **changes: Any) -> Answer | LmError:
    with OpenAIServer(script, default) as server:
        return model(server, **changes).ask([call()])[0]


def words(answer: Answer | LmError) -> list[str]:
    assert isinstance(answer, Answer), answer
    found: list[str] = answer.fields["words"]
    return found


def test_answers_are_parsed_to_their_types() -> None:
    assert ask([]) == Answer({"words": ["one", "two"]})


@pytest.mark.parametrize(
    "failure",
    [Status(429, AT_ONCE), Status(500, AT_ONCE), Status(503, AT_ONCE), Drop()],
    ids=["rate limit", "server error", "overloaded", "dropped"],
)
def test_passing_failures_are_retried(failure: Scripted) -> None:
    with OpenAIServer([failure], GOOD) as server:
        assert words(model(server).ask([call()])[0]) == ["one", "two"]
        assert len(server.requests) == 2


@pytest.mark.parametrize("code", [400, 401, 404])
def test_lasting_failures_are_not_retried(code: int) -> None:
    with OpenAIServer([], Status(code)) as server:
        answer = model(server).ask([call()])[0]
        assert isinstance(answer, LmError)
        assert len(server.requests) == 1


def test_retries_end() -> None:
    with OpenAIServer([], Status(429, AT_ONCE)) as server:
        answer = model(server, retries=2).ask([call()])[0]
        assert isinstance(answer, LmError)
        assert "LMRateLimitError" in str(answer)
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    "nonsense",
    [Body(b""), Body(b"<html>sorry</html>"), Body(b'{"choices": ['), Body(b'{"choices": []}')],
    ids=["nothing", "html", "cut off", "no choices"],
)
def test_nonsense_from_the_server_is_an_error(nonsense: Body) -> None:
    assert isinstance(ask([], nonsense), LmError)


def test_an_answer_that_ignores_the_format_is_asked_again_as_json() -> None:
    assert words(ask(["I like the sea.", '{"words": ["json"]}'])) == ["json"]
    assert "AdapterParseError" in str(ask([], "I like the sea."))


def test_an_answer_cut_at_max_tokens_is_marked() -> None:
    cut = Text('[[ ## words ## ]]\n["one", "tw', finish_reason="length")
    answer = ask([cut])
    assert isinstance(answer, Answer)
    assert answer.truncated


def test_an_answer_of_many_megabytes_is_refused_before_it_is_read() -> None:
    with OpenAIServer([], chat_fields(words=["one " * 5_000_000])) as server:
        language = model(server)
        answer = language.ask([call()])[0]
        assert len(server.requests) == 1
    assert isinstance(answer, LmError)
    assert "20,000," in str(answer)
    assert "100 tokens" in str(answer)
    assert language.spending.spent.calls == 1


DRIPPING = Drip(GOOD, pieces=300, pause=1.0)
"""An answer that nobody waits for to its end."""


def stopped(server: OpenAIServer, **changes: Any) -> tuple[LanguageModel, Answer | LmError]:
    """A model that was stopped at its deadline after the server had heard of the call."""
    for deadline in (0.3, 1.0, 3.0, 10.0, 30.0, 100.0):
        language = model(server, deadline=deadline, timeout=PATIENCE, **changes)
        (answer,) = language.ask([call()])
        if server.requests:
            return language, answer
    raise AssertionError("no request in 100 s")


def test_a_dripping_answer_ends_at_the_deadline() -> None:
    with OpenAIServer([], DRIPPING) as server:
        _, answer = stopped(server)
    assert isinstance(answer, DeadlineError)


def test_a_silent_server_is_given_up() -> None:
    release = threading.Event()

    def answer(body: Mapping[str, Any]) -> str:
        release.wait(PATIENCE)
        return GOOD

    with OpenAIServer([], answer) as server:
        language = model(server, timeout=0.2, retries=0, deadline=PATIENCE)
        (given,) = language.ask([call()])
        release.set()
    assert isinstance(given, LmError)
    assert not isinstance(given, DeadlineError)


def test_equal_calls_are_made_twice() -> None:
    script = [chat_fields(words=["first"]), chat_fields(words=["second"])]
    with OpenAIServer(script) as server:
        language = model(server)
        assert [words(language.ask([call()])[0]) for _ in range(2)] == [["first"], ["second"]]


def test_one_failing_call_does_not_harm_the_others() -> None:
    def fail_on_fire(body: Any) -> str | Status:
        return Status(400) if "fire" in body["messages"][-1]["content"] else GOOD

    with OpenAIServer([], fail_on_fire) as server:
        answers = model(server).ask([call("sea"), call("fire"), call("wind")])
    assert [isinstance(answer, Answer) for answer in answers] == [True, False, True]


def test_asking_nothing_costs_nothing() -> None:
    with OpenAIServer([]) as server:
        assert model(server).ask([]) == []
        assert server.requests == []


def test_asking_inside_a_running_event_loop_works() -> None:
    async def inside() -> list[Answer | LmError]:
        return model(server).ask([call()])

    with OpenAIServer([], GOOD) as server:
        assert words(asyncio.run(inside())[0]) == ["one", "two"]


def test_models_that_only_litellm_knows_are_asked_through_it() -> None:
    script = [Status(500, AT_ONCE)]
    with OpenAIServer(script, GOOD) as server:
        language = model(server, model="litellm_proxy/scripted", retries=1)
        assert words(language.ask([call()])[0]) == ["one", "two"]
        assert len(server.requests) == 2
    assert language.spending.spent == Charge(2, 100, 20)


def open_sessions() -> list[ClientSession]:
    gc.collect()
    return [o for o in gc.get_objects() if isinstance(o, ClientSession) and not o.closed]


def test_what_litellm_opened_is_closed_with_the_last_call() -> None:
    """It would be kept for an hour, and then dropped open."""
    before = open_sessions()
    with OpenAIServer([], GOOD) as server:
        language = model(server, model="litellm_proxy/scripted")
        language.check(probe=True)
        language.ask([call()])
        assert len(server.requests) == 2
    assert [session for session in open_sessions() if session not in before] == []


def test_a_call_that_ends_does_not_close_what_another_uses() -> None:
    arrived, release = threading.Event(), threading.Event()

    def answer(body: Mapping[str, Any]) -> str:
        if "sea" in str(body):
            arrived.set()
            assert release.wait(PATIENCE)
        return GOOD

    with OpenAIServer([], answer) as server, ThreadPoolExecutor(1) as pool:
        language = model(
            server, model="litellm_proxy/scripted", timeout=PATIENCE, deadline=PATIENCE
        )
        slow = pool.submit(language.ask, [call("sea")])
        assert arrived.wait(PATIENCE)
        quick = language.ask([call("fire")])
        release.set()
        assert [words(one) for one in (*quick, *slow.result())] == [["one", "two"]] * 2
    assert len(server.requests) == 2


def test_nothing_global_is_configured() -> None:
    import dspy

    before = dspy.settings.lm
    ask([])
    assert dspy.settings.lm is before


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-mine")
    with OpenAIServer([], GOOD) as server:
        model(server, api_key_env="MY_KEY").ask([call()])
        assert server.requests[0].authorization == "Bearer sk-mine"


def test_a_missing_key_is_found_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(InputError, match="export MY_KEY"):
        LanguageModel(LmSettings(model="m", api_key_env="MY_KEY")).check()


def test_settings_reach_the_server() -> None:
    with OpenAIServer([], GOOD) as server:
        model(server, temperature=0.3).ask([call()])
        body = server.requests[0].body
    assert body["temperature"] == 0.3
    assert 100 in (body.get("max_tokens"), body.get("max_completion_tokens"))
    assert body["model"] == "scripted"


def test_32_concurrent_calls_stay_within_the_budget() -> None:
    with OpenAIServer([], Text(GOOD, seconds=0.1)) as server:
        language = model(server, budget=BudgetSettings(calls=10).model_dump())
        answers = language.ask([call(str(number)) for number in range(32)])
        assert len(server.requests) == 10
        assert server.busiest > 1
    assert sum(isinstance(answer, Answer) for answer in answers) == 10
    assert sum(isinstance(answer, BudgetError) for answer in answers) == 22
    assert language.spending.spent == Charge(10, 1000, 200)


def test_no_answer_can_bring_the_run_over_its_money() -> None:
    prices = {"input": 1000.0, "output": 1000.0}
    with OpenAIServer([], Text(GOOD, completion_tokens=100)) as server:
        language = model(server, prices=prices, budget={"usd": 5.0})
        language.ask([call() for _ in range(32)])
        assert 0 < len(server.requests) < 32
    assert 0 < language.spending.spent.usd <= 5.0


def test_retries_are_paid_for() -> None:
    with OpenAIServer([], Status(500, AT_ONCE)) as server:
        language = model(server, retries=9, budget={"calls": 4})
        answer = language.ask([call()])[0]
        assert len(server.requests) == 4
    assert isinstance(answer, BudgetError)
    assert language.spending.spent == Charge(4)  # refused requests cost no tokens


def test_a_call_stopped_at_its_deadline_is_paid_in_full() -> None:
    with OpenAIServer([], DRIPPING) as server:
        language, _ = stopped(server)
    assert language.spending.spent.calls == 1
    assert language.spending.spent.output_tokens == 100


def test_a_budget_in_money_needs_a_price() -> None:
    settings = LmSettings(model="openai/unheard-of", budget=BudgetSettings(usd=1.0))
    with pytest.raises(InputError, match="USD per million tokens"):
        LanguageModel(settings).check()
    known = LanguageModel(LmSettings(model="openai/gpt-4o-mini", budget=BudgetSettings(usd=1.0)))
    assert known.prices == Prices(input=0.15, output=0.6)


def test_an_estimate_sends_nothing() -> None:
    with OpenAIServer([]) as server:
        language = model(server, prices={"input": 1.0, "output": 2.0})
        estimate = language.estimate(11, 3000, 1000)
        assert server.requests == []
    assert str(estimate) == "about 11 calls, 44,000 tokens, 0.055 USD"


def test_a_recording_replays_without_a_server(tmp_path: Path) -> None:
    script: list[Scripted] = [
        Status(500, AT_ONCE),
        chat_fields(words=["first"]),
        chat_fields(words=["second"]),
    ]
    record = {"record": str(tmp_path / "lm.jsonl")}
    with OpenAIServer(script, Status(400)) as server:
        live = model(server, **record)
        recorded = [live.ask([call()])[0] for _ in range(3)]
    replayed = LanguageModel(
        LmSettings(model="openai/scripted", max_tokens=100, replay=tmp_path / "lm.jsonl")
    )
    again = [replayed.ask([call()])[0] for _ in range(3)]
    assert again[:2] == recorded[:2]
    assert str(again[2]) == str(recorded[2])
    assert replayed.spending.spent == live.spending.spent


def test_an_unseen_request_names_the_first_divergence(tmp_path: Path) -> None:
    with OpenAIServer([], GOOD) as server:
        model(server, record=str(tmp_path / "lm.jsonl")).ask([call("sea")])
    replayed = LanguageModel(
        LmSettings(model="openai/scripted", max_tokens=100, replay=tmp_path / "lm.jsonl")
    )
    answer = replayed.ask([call("fire")])[0]
    assert isinstance(answer, ReplayError)
    assert "messages[0].text" in str(answer)
    assert "asked 'fire" in str(answer)


def test_a_deadline_is_recorded_and_replayed(tmp_path: Path) -> None:
    record = tmp_path / "lm.jsonl"
    with OpenAIServer([], DRIPPING) as server:
        stopped(server, record=str(record))
    replayed = LanguageModel(LmSettings(model="openai/scripted", max_tokens=100, replay=record))
    assert isinstance(replayed.ask([call()])[0], DeadlineError)


def test_spending_survives_a_kill_and_resume(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"model": "openai/scripted", "budget": {"calls": 3}}
    with OpenAIServer([], GOOD) as server:
        settings["api_base"] = server.url
        journal = tmp_path / SPENDING_FILE
        before = LanguageModel(LmSettings.model_validate(settings), spending=SpendTracker(journal))
        before.ask([call(), call()])
        checkpoint = before.state_dict()
        del before
        after = LanguageModel(LmSettings.model_validate(settings), spending=SpendTracker(journal))
        after.load_state_dict(checkpoint)
        answers = after.ask([call(), call()])
        assert len(server.requests) == 3
    assert sum(isinstance(answer, BudgetError) for answer in answers) == 1
    assert after.metrics()["lm/calls"] == 3.0


def test_a_state_of_something_else_is_refused() -> None:
    with pytest.raises(StateError, match="spending"):
        LanguageModel(LmSettings(model="m")).load_state_dict({})
