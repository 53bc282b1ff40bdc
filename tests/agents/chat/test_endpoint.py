from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from waiting import PATIENCE

from evoprompt.agents import Action, Broken, Episode, Sampling, encode
from evoprompt.agents.endpoint import ChatEndpoint, TokenEndpoint
from evoprompt.lm import BudgetError, BudgetSettings, Charge, Spending
from evoprompt.support.errors import EvopromptWarning, InputError
from evoprompt.testing.openai_server import Answer, Body, Drop, OpenAIServer, Status, Text

SAMPLING = Sampling(max_tokens=50, stop=("</look>", "</say>"))


def chat(server: OpenAIServer, **given: Any) -> ChatEndpoint:
    settings = {"attempts": 3, "pause": 0.01, "timeout": PATIENCE, **given}
    return ChatEndpoint("m", server.url, **settings)


def asked(text: str = "Who?") -> Episode:
    return Episode(encode(ChatEndpoint.tokenizer, [{"role": "user", "content": text}]))


def said(endpoint: ChatEndpoint, *episodes: Episode) -> list[str | Broken]:
    actions = endpoint(list(episodes) or [asked()], SAMPLING, greedy=True)
    return [
        one if isinstance(one, Broken) else endpoint.tokenizer.decode(one.ids, False)
        for one in actions
    ]


def failed(endpoint: ChatEndpoint) -> str:
    (reply,) = said(endpoint)
    assert isinstance(reply, Broken)
    return reply.error


def completion(usage: object = None, **choice: object) -> Body:
    return Body(json.dumps({"choices": [choice], "usage": usage}).encode())


def test_many_episodes_are_asked_a_few_at_a_time_and_answered_in_order() -> None:
    four, lock = threading.Barrier(4), threading.Lock()
    busy, most = list[object](), list[int]()

    def echo(body: Mapping[str, Any]) -> Text:
        with lock:
            busy.append(body)
            most.append(len(busy))
        four.wait(PATIENCE)
        with lock:
            busy.pop()
        return Text(f"<say> {body['messages'][-1]['content']} </say>")

    questions = [f"question {number}" for number in range(20)]
    with OpenAIServer(default=echo) as server:
        replies = said(chat(server, connections=4), *map(asked, questions))
        assert replies == [f"<say> {text} </say>" for text in questions]
        assert max(most) == 4
        sent = server.requests[0].body
    assert (sent["model"], sent["max_tokens"], sent["temperature"]) == ("m", 50, 0.0)
    assert sent["stop"] == ["</look>", "</say>"]


def test_they_are_asked_where_a_loop_runs_already_as_in_a_notebook() -> None:
    async def cell() -> list[str | Broken]:
        return said(chat(server))

    with OpenAIServer(["fine"]) as server:
        assert asyncio.run(cell()) == ["fine"]


@pytest.mark.parametrize(
    "trouble", [Status(429, {"Retry-After": "0"}), Status(503), Drop(), Body(b"<html>")]
)
def test_passing_trouble_is_waited_out(trouble: Answer) -> None:
    with OpenAIServer([trouble, "fine"]) as server:
        assert said(chat(server)) == ["fine"]


@pytest.mark.parametrize(
    ("error", "told", "requests"),
    [
        ({"code": 401, "message": "User not found."}, "answered 401", 1),
        ({"code": "503", "message": "busy"}, "answered 503", 3),
        ({"code": "odd", "message": "who knows"}, "answered garbage", 3),
    ],
)
def test_an_error_that_comes_as_an_answer_is_told_as_what_it_is(
    error: dict[str, object], told: str, requests: int
) -> None:
    with OpenAIServer(default=Body(json.dumps({"error": error}).encode())) as server:
        assert told in failed(chat(server))
        assert len(server.requests) == requests


@pytest.mark.parametrize("when", ["Fri, 01 Jan 99999 00:00:00 GMT", "nan", "-5", "soon"])
def test_a_time_to_wait_that_cannot_be_is_not_waited_for(when: str) -> None:
    with OpenAIServer([Status(429, {"Retry-After": when})], "fine") as server:
        assert said(chat(server)) == ["fine"]


@pytest.mark.parametrize(
    "headers",
    [
        *({"Retry-After": when} for when in ("3600", "1e308", "inf")),
        {"Retry-After": "Fri, 01 Jan 2100 00:00:00 GMT"},
        {"retry-after-ms": "3600000", "Retry-After": "0"},
    ],
)
def test_nobody_waits_longer_than_the_deadline_because_a_server_asks_for_it(
    headers: dict[str, str],
) -> None:
    with OpenAIServer(default=Status(429, headers)) as server:
        assert "answered 429" in failed(chat(server))
        assert len(server.requests) == 1


@pytest.mark.parametrize(("status", "code"), [(402, "any"), (429, "insufficient_quota")])
def test_an_empty_account_is_asked_once(status: int, code: str) -> None:
    content = json.dumps({"error": {"message": "no credits", "code": code}}).encode()
    with OpenAIServer(default=Body(content, status)) as server:
        assert f"answered {status}" in failed(chat(server))
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("trouble", "told", "requests"),
    [
        (Status(500), "answered 500", 3),
        (Body(b'{"choices": []}'), "answered garbage", 3),
        (Status(401, message="no such key"), "answered 401", 1),
        (Body(b" " * 2**25), "characters, more than 50 tokens can have", 1),
        (Status(401, message="bad key sk-of-mine"), "bad key ***", 1),
    ],
)
def test_lasting_trouble_costs_only_its_own_reply(
    trouble: Answer, told: str, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-of-mine")

    def answer(body: Mapping[str, Any]) -> Any:
        return trouble if body["messages"][-1]["content"] == "bad" else "fine"

    with OpenAIServer(default=answer) as server:
        bad, good = said(chat(server), asked("bad"), asked())
        assert len(server.requests) == requests + 1
    assert good == "fine"
    assert isinstance(bad, Broken)
    assert told in bad.error


@pytest.mark.parametrize("status", [200, 400])
def test_an_answer_that_is_too_long_is_not_read_to_its_end(status: int) -> None:
    with OpenAIServer(default=Body(b" " * 2**27, status)) as server:
        told = failed(chat(server))
    read = int(told.partition("has ")[2].partition(" ")[0].replace(",", ""))
    assert 2**24 < read < 2**25


@pytest.mark.parametrize(
    "content",
    [
        b'\xef\xbb\xbf{"choices": [{"message": {"content": "4"}}]}',
        b'{"choices": [{"message": {"content": "4", "reasoning": "\\ud83d"}}]}',
        b'{"choices": [{"message": {"content": "4"}, "finish_reason": 5}]}',
        b'{"choices": [{"message": {"content": "4", "reasoning": {"text": "Hm."}}}]}',
        b'{"choices": [{"message": {"content": ["4"]}}]}',
        b'{"choices": [{"message": {"content": {"type": "text", "text": "4"}}}]}',
        b'{"choices": [{"message": {"content": "4", "tool_calls": [null, {"function": null}]}}]}',
        b'{"choices": [{"message": {"content": "4", "tool_calls": {}}}]}',
        b'{"choices": [{"message": {"content": [{"type": "text", "text": {"value": "4"}}]}}]}',
        b'{"choices": [{"message": {"content": {"parts": [{"text": "4"}]}}}]}',
    ],
)
def test_odd_things_around_an_answer_spoil_none(content: bytes) -> None:
    with OpenAIServer(default=Body(content)) as server:
        (reply,) = said(chat(server))
        assert len(server.requests) == 1
    assert str(reply).endswith("4")


@pytest.mark.parametrize(
    "told",
    [
        "max_tokens (50) exceeds the limit: values above 9 are not allowed for this model",
        "Invalid value for max_tokens: 50 is not supported, the maximum is 9",
        "This model's maximum context length is 4096 tokens; your max_tokens leaves too few.",
    ],
)
def test_a_limit_that_is_too_large_is_none_that_a_server_refuses(told: str) -> None:
    with OpenAIServer(default=Status(400, message=told)) as server:
        refusal = failed(chat(server))
        assert "answered 400" in refusal
        assert told in refusal
        assert len(server.requests) == 1


def test_an_answer_that_drips_ends_at_the_deadline_and_is_paid_in_full() -> None:
    spending = Spending()
    with OpenAIServer(default=Text("late", seconds=1.0, pieces=300)) as server:
        policy = chat(server, deadline=1.0, spending=spending)
        assert "gave no answer in 1 s" in failed(policy)
    assert spending.tracker.spent.output_tokens == 50


def test_a_server_that_is_down_and_an_address_that_is_none_are_named() -> None:
    with OpenAIServer() as server:
        gone = chat(server, attempts=9, pause=9.0)
    assert "does not answer" in failed(gone)
    for url in ("localhost:80", "http://127.0.0.1:99999/v1"):
        with pytest.raises(InputError, match=r"is no address .* required: that of a server"):
            ChatEndpoint("m", url)


@pytest.mark.parametrize(
    "usage",
    [
        *(None, {}, "many", [1], {"prompt_tokens": "3"}, {"prompt_tokens": 3}, {"a": 1e400}),
        {"prompt_tokens": 1, "completion_tokens": 10**30},
        {"prompt_tokens": -1, "completion_tokens": 7},
    ],
)
def test_a_usage_that_cannot_be_read_spoils_no_answer_and_counts_as_the_most(usage: object) -> None:
    spending = Spending()
    answer = completion(usage, message={"content": "fine"}, finish_reason="stop")
    with OpenAIServer(default=answer) as server:
        assert said(chat(server, spending=spending)) == ["fine"]
    assert spending.tracker.spent.output_tokens == 50


def test_no_attempt_is_made_that_the_budget_may_not_cover() -> None:
    spending = Spending(budget=BudgetSettings(calls=3))
    with OpenAIServer(["fine"], Status(500)) as server:
        policy = chat(server, spending=spending, attempts=9)
        assert said(policy) == ["fine"]
        with pytest.raises(BudgetError, match="4 calls; the budget is 3"):
            said(policy)
        assert len(server.requests) == 3
    assert spending.tracker.spent == Charge(3, 100, 20)  # what was refused cost no tokens


@pytest.mark.parametrize(
    ("choice", "reply"),
    [
        ({"message": {"content": "<say> Ulm"}, "finish_reason": "stop"}, "<say> Ulm</say>"),
        ({"message": {"content": "<say> Ulm"}}, "<say> Ulm</say>"),
        ({"message": {"content": "<look>a</look> <say>b"}}, "<look>a</look> <say>b</say>"),
        ({"message": {"content": [{"type": "text", "text": "<say> Ulm"}]}}, "<say> Ulm</say>"),
        ({"message": {"content": None, "refusal": "No."}, "finish_reason": "stop"}, "No."),
    ],
)
def test_a_reply_s_last_tag_is_closed_whatever_form_it_has(
    choice: dict[str, object], reply: str
) -> None:
    with OpenAIServer(default=completion(**choice)) as server:
        assert said(chat(server)) == [reply]
        assert len(server.requests) == 1


def test_a_reply_that_was_cut_is_not_closed_and_is_told_of_once() -> None:
    cut = completion(message={"content": "<say> Ul"}, finish_reason="length")
    with OpenAIServer(default=cut) as server:
        endpoint = chat(server)
        with pytest.warns(EvopromptWarning, match=r"limit of tokens \(max_tokens=50\)"):
            assert said(endpoint) == ["<say> Ul"]
        assert said(endpoint) == ["<say> Ul"]


ENDS = ("content_filter", "length", "error", "refusal", "FinishReason.RECITATION", "abort")


@pytest.mark.parametrize("why", [*ENDS, "MAX_TOKENS", "guardrail_intervened"])
def test_an_empty_answer_that_a_server_ended_says_nothing_of_the_policy(why: str) -> None:
    with OpenAIServer(default=completion(message={"content": None}, finish_reason=why)) as server:
        assert "finish_reason " in failed(chat(server))


UNSUPPORTED = "Unsupported parameter: 'max_tokens' is not supported with this model. Use another."
DEFAULT = "'temperature' does not support 0.0 with this model. Only the default (1) value is."


@pytest.mark.parametrize(
    ("status", "body", "name"),
    [
        (400, {"error": {"message": UNSUPPORTED, "param": "max_tokens"}}, "max_tokens"),
        (400, {"error": {"message": UNSUPPORTED, "param": None}}, "max_tokens"),
        (400, {"error": {"message": f"Proxy: {UNSUPPORTED}", "param": "None"}}, "max_tokens"),
        (400, {"error": {"message": DEFAULT}}, "temperature"),
        (400, {"message": "stop: Extra inputs are not permitted"}, "stop"),
        (422, {"detail": "temperature: not supported by this model"}, "temperature"),
        (400, {"error": "`temperature` is deprecated for this model."}, "temperature"),
        (400, {"error": "invalid temperature: only 1 is allowed for this model"}, "temperature"),
        (400, {"error": "temperature may only be set to 1 with thinking"}, "temperature"),
        (400, {"error": "temperature must be 1.0 here"}, "temperature"),
        (400, {"error": "temperature and top_p cannot both be specified"}, "temperature"),
        (400, {"error": "use max_completion_tokens instead of max_tokens"}, "max_tokens"),
        (404, {"error": "No endpoints found that support: stop"}, "stop"),
        (500, {"error": f"APIError: {UNSUPPORTED}"}, "max_tokens"),
    ],
)
def test_a_parameter_that_a_server_refuses_in_words_is_left_out(
    status: int, body: object, name: str
) -> None:
    def answer(given: Mapping[str, Any]) -> Any:
        return Body(json.dumps(body).encode(), status) if name in given else "fine"

    with OpenAIServer(default=answer) as server:
        policy = chat(server)
        with pytest.warns(EvopromptWarning, match=f"takes no {name}="):
            assert said(policy) == ["fine"]
        assert said(policy) == ["fine"]
        assert len(server.requests) == 3


def test_trouble_that_repeats_what_it_was_asked_leaves_nothing_out() -> None:
    with OpenAIServer([Status(500, message="while handling {'temperature': 0.0}")], "4") as server:
        assert said(chat(server)) == ["4"]
        assert server.requests[1].body["temperature"] == 0.0


def test_no_temperature_is_sent_where_there_is_none() -> None:
    with OpenAIServer(default="4") as server:
        assert said(chat(server, temperature=None)) == ["4"]
        assert "temperature" not in server.requests[0].body


def test_actions_are_the_assistants_and_observations_the_users() -> None:
    tokenizer = ChatEndpoint.tokenizer
    episode = asked()
    episode.add_action(Action(tokenizer.encode("a1", add_special_tokens=False)), "a1")
    episode.show(tokenizer.encode("\n\no1\n", add_special_tokens=False), "\n\no1\n")
    with OpenAIServer() as server:
        said(chat(server), episode)
        assert server.requests[0].body["messages"] == [
            {"role": "user", "content": "Who?"},
            {"role": "assistant", "content": "a1"},
            {"role": "user", "content": "o1"},
        ]


def test_the_very_tokens_go_out_and_come_back() -> None:
    answer = completion(text="?", token_ids=[7, 8], logprobs={"token_logprobs": [-0.5, -1.0]})
    episode = Episode([1, 2])
    episode.add_action(Action([3]), "said")
    with OpenAIServer(default=answer) as server:
        endpoint = TokenEndpoint("m", server.url)
        found = endpoint([episode], SAMPLING, greedy=True)
        (request,) = server.requests
    assert found == [Action([7, 8], [-0.5, -1.0])]
    assert request.path == "/v1/completions"
    assert request.body["prompt"] == [1, 2, 3]
    assert request.body["stop"] == ["</look>", "</say>"]
    assert request.body["return_token_ids"] is True
    assert (request.body["temperature"], request.body["repetition_penalty"]) == (0.0, 1.0)


def test_a_server_without_token_ids_is_named_and_not_guessed_at() -> None:
    with OpenAIServer(default=completion(text="hello")) as server:
        (found,) = TokenEndpoint("m", server.url)([Episode([1])], SAMPLING, greedy=True)
        assert len(server.requests) == 1
    assert isinstance(found, Broken)
    assert "returned no token ids; required: a server that knows return_token_ids" in found.error


def test_a_server_that_is_not_there_is_asked_once_and_one_that_has_gone_again() -> None:
    with OpenAIServer(["fine"]) as server:
        endpoint = chat(server)
        assert said(endpoint) == ["fine"]
    spending = Spending()
    gone = chat(server, spending=spending)
    assert "does not answer ([Errno" in failed(gone)
    assert "required: a server of OpenAI's protocol" in failed(gone)
    assert spending.tracker.spent.calls == 2
    endpoint._spending = spending = Spending()
    assert "does not answer" in failed(endpoint)
    assert spending.tracker.spent.calls == 3


@pytest.mark.parametrize("status", [301, 307])
def test_a_redirect_to_another_server_is_not_followed_with_the_key(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-of-mine")
    with OpenAIServer(["fine"]) as other:
        location = {"Location": f"{other.url}/chat/completions"}
        with OpenAIServer(default=Status(status, location)) as server:
            assert f"answered {status}" in failed(chat(server, key="MY_API_KEY"))
        assert other.requests == []
        assert len(server.requests) == 1


def test_a_redirect_of_the_same_server_is_followed_and_none_goes_on_without_end() -> None:
    with OpenAIServer([Status(308, {"Location": "/v1/chat/completions"})], "fine") as server:
        assert said(chat(server)) == ["fine"]
    with OpenAIServer(default=Status(308, {"Location": "/v1/chat/completions"})) as server:
        assert "redirects without end" in failed(chat(server))
        assert len(server.requests) == 4


def test_a_query_of_the_address_keeps_its_place() -> None:
    with OpenAIServer(default="fine") as server:
        policy = ChatEndpoint("m", f"{server.url}?api-version=2026-01-01")
        assert said(policy) == ["fine"]
        assert server.requests[0].path == "/v1/chat/completions?api-version=2026-01-01"


@pytest.mark.parametrize("key", ["ключ", "a\nb"])
def test_a_key_that_no_header_can_hold_is_named(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", key)
    with OpenAIServer(default="fine") as server:
        assert "cannot be sent a request" in failed(chat(server, key="MY_API_KEY"))
        assert server.requests == []
