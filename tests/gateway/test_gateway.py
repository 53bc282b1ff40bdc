"""The gateway over real HTTP, before a server that streams and refuses as OpenAI's does."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import openai
import pytest
from contract_runs import BRIEF, EngineSpec
from upstream import KEY, MODEL, USAGE, Reply, Upstream, serving

from evoprompt import Engine, EvopromptWarning, Question
from evoprompt.gateway import (
    KEY_HEADER,
    Gateway,
    GatewaySettings,
    GatewayStoppedError,
    UnknownConversationError,
)
from evoprompt.gateway.server import SPENDING
from evoprompt.lm.budget import Charge, SpendTracker
from evoprompt.support.errors import AttachError, InputError
from evoprompt.types import TaskContext

QUESTION = Question("q", "What is 2 + 2?", ("4",))
TOOL: Any = {"type": "function", "function": {"name": "look", "description": "?", "parameters": {}}}
CHAT: Any = {"model": MODEL, "messages": [{"role": "user", "content": "What is 2 + 2?"}]}
CLIENTS = ExitStack()
"""Of agents, closed after each test."""


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with serving() as found:
        yield found


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("EVOPROMPT_GATEWAY_TOKEN", raising=False)
    yield
    CLIENTS.close()


@pytest.fixture
def gateway(upstream: Upstream, engine: Engine, tmp_path: Path) -> Iterator[Gateway]:
    with build(engine, tmp_path / "g", upstream.url) as found:
        yield found


def build(engine: Engine, directory: Path, upstream: str, **given: Any) -> Gateway:
    fields = {"rollouts": 2, "groups": 1, "key": "OPENAI_API_KEY", **given}
    return Gateway(engine, GatewaySettings(upstream=upstream, directory=directory, **fields))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rollouts": 1}, "^rollouts is 1: .*required: "),
        ({"rolouts": 2}, "^unknown setting 'rolouts'; did you mean 'rollouts'"),
        ({"upstream": "localhost:8000"}, "^upstream is 'localhost:8000': "),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(given: dict[str, Any], message: str) -> None:
    usable = {"upstream": "http://127.0.0.1:8000/v1", "directory": "gateway", "rollouts": 2}
    with pytest.raises(InputError, match=message):
        GatewaySettings(**{**usable, **given})


@pytest.mark.parametrize("value", [None, ""])
def test_a_key_that_the_environment_does_not_have_is_refused(
    value: str | None, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("MY_KEY", value)
    message = "^key is MY_KEY, which the environment does not have; required: .*; export MY_KEY="
    with pytest.raises(InputError, match=message):
        build(engine, tmp_path, "http://127.0.0.1:9/v1", key="MY_KEY")
    assert not list(tmp_path.iterdir())
    given = "sk-" + "0123456789" * 4
    with pytest.raises(InputError) as raised:
        build(engine, tmp_path, "http://127.0.0.1:9/v1", key=given)
    assert given not in str(raised.value)
    monkeypatch.setenv("MY_KEY", "sk-of-mine")
    build(engine, tmp_path, "http://127.0.0.1:9/v1", key="MY_KEY").close()


def test_a_class_in_place_of_an_object_is_named(engine: Engine, tmp_path: Path) -> None:
    settings = GatewaySettings(upstream="http://127.0.0.1:9/v1", directory=tmp_path, rollouts=2)
    with pytest.raises(InputError, match=r"^engine is .*; write engine=Engine"):
        Gateway(Engine, settings)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^settings is .*; write settings=GatewaySettings"):
        Gateway(engine, GatewaySettings)  # type: ignore[arg-type]


def test_a_closed_gateway_does_not_listen_again(upstream: Upstream, tmp_path: Path) -> None:
    with build(BRIEF.build(), tmp_path, upstream.url) as gateway:
        pass
    with pytest.raises(GatewayStoppedError, match=r"closed.*; required: another one"), gateway:
        pass


def agent(gateway: Gateway, key: str, **given: Any) -> openai.OpenAI:
    client = openai.OpenAI(base_url=gateway.url, api_key=key, max_retries=0, **given)
    CLIENTS.callback(client.close)
    return client


def raw(
    gateway: Gateway, path: str, body: bytes | dict[str, Any], key: str = "", method: str = "POST"
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and bytes of an answer, as a client sees them that adds nothing."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    shown = {"Content-Type": "application/json"} | (
        {"Authorization": f"Bearer {key}"} if key else {}
    )
    connection.request(method, path, content, shown)
    with closing(connection), connection.getresponse() as response:
        headers = {name.lower(): value for name, value in response.getheaders()}
        return response.status, headers, response.read()


def answering(reply: Reply) -> Callable[[dict[str, Any]], Reply]:
    return lambda body: reply


def told(engine: Engine) -> list[dict[str, Any]]:
    return [event for event in engine.log if event["event"] == "step_completed"]


def test_an_agent_changes_nothing_but_its_base_url_and_key(
    gateway: Gateway, upstream: Upstream
) -> None:
    gateway.engine.setting = TaskContext(reward="right answers")
    key = gateway.conversation(QUESTION, "g")
    answer = agent(gateway, key).chat.completions.create(**CHAT)
    assert answer.choices[0].message.content == "Grüße, 4."
    system, question = upstream.asked[0]["messages"]
    assert system == {"role": "system", "content": "Be brief."}
    assert question == CHAT["messages"][0]
    assert gateway.engine.setting.reward == "right answers"
    assert "What is 2 + 2?" in gateway.engine.setting.prompt
    assert gateway.reward(key, 1.0) == ""


def test_the_upstreams_key_goes_to_it_alone_and_the_agents_to_nobody(
    gateway: Gateway, upstream: Upstream
) -> None:
    key = gateway.conversation(QUESTION, "g")
    status, headers, content = raw(gateway, "/v1/chat/completions", CHAT, key)
    assert status == 200
    assert upstream.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert key not in json.dumps(upstream.headers)
    assert KEY not in json.dumps(headers) + content.decode()
    assert "set-cookie" not in headers
    assert headers["x-request-id"] == "r1"
    files = [file.read_text() for file in gateway.settings.directory.rglob("*") if file.is_file()]
    assert not any(KEY in text for text in files)


@pytest.mark.parametrize("stream", [False, True])
def test_answers_pass_byte_for_byte(gateway: Gateway, upstream: Upstream, stream: bool) -> None:
    upstream.reply = lambda body: Reply("Grüße 漢字 🙂 " * 20, [("look", '{"at": "ü"}')] * 2)
    key = gateway.conversation(QUESTION, "g")
    asked = {**CHAT, "stream": stream, "tools": [TOOL]}
    status, headers, content = raw(gateway, "/v1/chat/completions", asked, key)
    assert (status, content) == (200, upstream.sent[0])
    assert headers["content-type"].startswith("text/event-stream" if stream else "application/json")


def test_a_stream_passes_while_it_is_written(gateway: Gateway, upstream: Upstream) -> None:
    gates: list[asyncio.Event] = []

    def reply(body: dict[str, Any]) -> Reply:
        gates.append(asyncio.Event())
        loops.append(asyncio.get_running_loop())
        return Reply("word " * 50, gate=gates[-1])

    loops: list[asyncio.AbstractEventLoop] = []
    upstream.reply = reply
    key = gateway.conversation(QUESTION, "g")
    with agent(gateway, key).chat.completions.create(**CHAT, stream=True) as stream:
        chunks = iter(stream)
        first = next(chunks)
        loops[0].call_soon_threadsafe(gates[0].set)  # the rest is written only now
        text = "".join(one.choices[0].delta.content or "" for one in [first, *chunks])
    assert text == "word " * 50


def test_what_a_stream_said_and_called_is_known_as_if_it_had_come_at_once(
    gateway: Gateway, upstream: Upstream
) -> None:
    calls = [("look", '{"at": "left"}'), ("add", '{"a": 1, "b": 2}')]
    upstream.reply = lambda body: Reply("Hm.", calls)
    for stream in (False, True):
        key = gateway.conversation(QUESTION, "g")
        raw(gateway, "/v1/chat/completions", {**CHAT, "stream": stream, "tools": [TOOL]}, key)
        gateway.reward(key, 0.0, "Wrong.")
    first, second = gateway.engine.replay.failures(2, gateway.engine.rng)
    assert first.turns == second.turns
    assert first.turns[0].action.startswith("Hm.\n<tool_call>\n")
    assert '{"name": "add", "arguments": {"a": 1, "b": 2}}' in first.turns[0].action


def test_an_agent_in_turns_with_tools(gateway: Gateway, upstream: Upstream) -> None:
    """Each request is rewritten as it comes, also where the agent changes its system message."""
    key = gateway.conversation(QUESTION, "g")
    messages: Any = [
        {"role": "system", "content": "Turn 1."},
        {"role": "user", "content": "What is 2 + 2?"},
    ]
    upstream.reply = lambda body: Reply("", [("look", "{}")])
    client = agent(gateway, key)
    asked: dict[str, Any] = {"model": MODEL, "tools": [TOOL]}
    came = client.chat.completions.create(messages=messages, **asked).choices[0].message
    calls = came.tool_calls
    assert calls is not None
    messages[0] = {"role": "system", "content": "Turn 2."}
    messages += [
        came.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": calls[0].id, "content": "2 apples"},
    ]
    upstream.reply = lambda body: Reply("4")
    client.chat.completions.create(messages=messages, **asked)
    systems = [body["messages"][0]["content"] for body in upstream.asked]
    assert systems == ["Turn 1.\n\nBe brief.", "Turn 2.\n\nBe brief."]
    assert upstream.asked[1]["messages"][1:] == messages[1:]
    gateway.reward(key, 0.0)
    with pytest.warns(EvopromptWarning, match="^1 of 2 rollouts of step 1 have no reward"):
        gateway.reward(gateway.conversation(QUESTION, "g"), None)
    (failed,) = gateway.engine.replay.failures(1, gateway.engine.rng)
    assert failed.turns[0].observation == "2 apples"
    assert failed.turns[1].action == "4"


def test_descriptions_of_tools_are_the_candidates(upstream: Upstream, tmp_path: Path) -> None:
    engine = Engine([{"instruction": "Be brief.", "tool:look": "Looks left."}])
    with build(engine, tmp_path, upstream.url) as gateway:
        key = gateway.conversation(QUESTION, "g")
        agent(gateway, key).chat.completions.create(**CHAT, tools=[TOOL])
        assert upstream.asked[0]["tools"][0]["function"]["description"] == "Looks left."


def test_completions_and_the_list_of_models_pass(gateway: Gateway, upstream: Upstream) -> None:
    key = gateway.conversation(QUESTION, "g")
    client = agent(gateway, key)
    assert [one.id for one in client.models.list()] == [MODEL]
    found = client.completions.create(model=MODEL, prompt="Say it.", max_tokens=5)
    assert found.choices[0].text == "Grüße, 4."
    assert upstream.asked[0]["prompt"] == "Be brief.\n\nSay it."
    status, _, content = raw(gateway, "/v1/completions", {"model": MODEL, "prompt": [1, 2]}, key)
    assert status == 400
    assert b"not tokens" in content


def test_two_agents_with_one_key_are_one_conversation(gateway: Gateway, upstream: Upstream) -> None:
    """Whatever each asks is under the same instruction, and the first reward ends it for both."""
    key = gateway.conversation(QUESTION, "g")
    for text in ("What is 2 + 2?", "Who are you?"):
        asked = [{"role": "user", "content": text}]
        agent(gateway, key).chat.completions.create(**{**CHAT, "messages": asked})
    assert {body["messages"][0]["content"] for body in upstream.asked} == {"Be brief."}
    assert gateway.reward(key, 1.0) == ""
    with pytest.raises(UnknownConversationError):
        gateway.reward(key, 0.0)
    with pytest.raises(openai.NotFoundError, match="no open conversation"):
        agent(gateway, key).chat.completions.create(**CHAT)
    assert len(upstream.bodies) == 2


def test_the_key_may_stand_in_a_header(gateway: Gateway, upstream: Upstream) -> None:
    key = gateway.conversation(QUESTION, "g")
    client = agent(gateway, "anything", default_headers={KEY_HEADER: key})
    client.chat.completions.create(**CHAT)
    assert KEY_HEADER not in upstream.headers[0]


def test_a_conversation_may_have_an_upstream_of_its_own_which_sees_the_agents_key(
    gateway: Gateway, upstream: Upstream
) -> None:
    """As a trainer has that notes what is sampled, for each rollout by its own URL and key."""
    with serving() as own:
        key = gateway.conversation(QUESTION, "g", "sk-of-the-rollout", own.url)
        agent(gateway, key).chat.completions.create(**CHAT)
        agent(gateway, key).models.list()
    assert own.asked[0]["messages"][0]["content"] == "Be brief."
    assert {one["Authorization"] for one in own.headers} == {f"Bearer {key}"}
    with serving() as moved:  # it was started again
        assert gateway.conversation(QUESTION, "g", key, moved.url) == key
        agent(gateway, key).chat.completions.create(**CHAT)
        assert len(moved.bodies) == 1
    assert not upstream.headers
    assert gateway.reward(key, 1.0) == ""


def test_an_upstream_that_is_no_url_is_refused(gateway: Gateway) -> None:
    opened = {"question": {"id": "q", "text": "?"}, "upstream": "file:///etc/passwd"}
    assert raw(gateway, "/conversations", opened, gateway.token)[0] == 400
    with pytest.raises(InputError, match=r"^upstream is '127\.0\.0\.1:8000': .*; required: "):
        gateway.conversation(QUESTION, upstream="127.0.0.1:8000")


def test_a_request_that_is_sent_again_is_one_turn(gateway: Gateway, upstream: Upstream) -> None:
    """A client does so that lost the answer; what writers read has it once."""
    key = gateway.conversation(QUESTION, "g")
    for text in ("first", "second"):
        upstream.reply = answering(Reply(text))
        agent(gateway, key).chat.completions.create(**CHAT)
    gateway.reward(key, 0.0)
    with pytest.warns(EvopromptWarning, match="^1 of 2 rollouts of step 1 have no reward"):
        gateway.reward(gateway.conversation(QUESTION, "g"), None)
    (failed,) = gateway.engine.replay.failures(1, gateway.engine.rng)
    assert [turn.action for turn in failed.turns] == ["second"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        *(("POST", f"/v1/{path}", 404) for path in ("files", "audio/speech", "responses/r/cancel")),
        *(("GET", path, 404) for path in ("/", "/metrics", "/v1/../admin")),
        *(("GET", path, 405) for path in ("/v1/chat/completions", "/conversations")),
    ],
)
def test_everything_else_is_refused_by_name(
    gateway: Gateway, upstream: Upstream, method: str, path: str, status: int
) -> None:
    key = gateway.conversation(QUESTION, "g")
    found, _, content = raw(gateway, path, CHAT, key, method)
    assert found == status
    assert b"/v1/chat/completions" in content
    assert not upstream.headers


@pytest.mark.parametrize("key", ["", "sk-nobody", KEY])
def test_without_the_key_of_an_open_conversation_nothing_is_asked(
    gateway: Gateway, upstream: Upstream, key: str
) -> None:
    for path, method in (("/v1/chat/completions", "POST"), ("/v1/models", "GET")):
        status, _, content = raw(gateway, path, CHAT, key, method)
        assert status == 404
        assert b"no open conversation" in content
    assert not upstream.headers


def test_what_the_upstream_objects_to_is_the_agents_to_read(
    gateway: Gateway, upstream: Upstream
) -> None:
    key = gateway.conversation(QUESTION, "g")
    with pytest.raises(openai.BadRequestError, match="temprature"):
        agent(gateway, key).chat.completions.create(**CHAT, extra_body={"temprature": 1})
    agent(gateway, key).chat.completions.create(**CHAT)
    assert gateway.reward(key, 0.5) == ""


def test_an_upstream_that_is_busy_or_broken_is_no_fault_of_the_instruction(
    gateway: Gateway, upstream: Upstream
) -> None:
    def fail(status: int, kind: type[openai.APIStatusError]) -> None:
        key = gateway.conversation(QUESTION, "g")
        agent(gateway, key).chat.completions.create(**CHAT)
        reply = Reply(status=status, raw=b'{"error": {}}', headers={"Retry-After": "7"})
        upstream.reply = answering(reply)
        with pytest.raises(kind) as caught:
            agent(gateway, key).chat.completions.create(**CHAT)
        assert caught.value.response.headers["Retry-After"] == "7"
        upstream.reply = lambda body: Reply()
        assert gateway.reward(key, 0.0) == f"the upstream answers {status}"

    fail(429, openai.RateLimitError)
    with pytest.warns(EvopromptWarning, match="^2 of 2 rollouts of step 1 have no reward"):
        fail(503, openai.InternalServerError)
    assert told(gateway.engine)[0]["unscored"] == 2


def test_an_upstream_that_refuses_the_gateways_key_shows_it_to_nobody(
    upstream: Upstream, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key-at-all")
    with build(engine, tmp_path, upstream.url) as gateway:
        key = gateway.conversation(QUESTION, "g")
        status, _, content = raw(gateway, "/v1/chat/completions", CHAT, key)
    assert status == 502
    assert b"401" in content
    assert b"not" not in content


@pytest.mark.parametrize(
    ("stream", "reply"),
    [
        (False, Reply(raw=b"<html>502</html>")),
        (False, Reply(raw=b"[]")),
        (False, Reply(raw=b'{"error": {"message": "out of memory"}}')),
        (False, Reply(cut=40)),
        (True, Reply(raw=b"data: {nonsense}\n\ndata: [DONE]\n\n")),
        (True, Reply(raw=b'data: {"error": {"message": "oom"}}\n\ndata: [DONE]\n\n')),
        (True, Reply(raw=b'data: {"choices": []}\n\n')),
        (True, Reply(raw=b"")),
        (True, Reply(cut=300)),
    ],
)
def test_garbage_and_half_answers_are_errors_and_the_conversation_goes_on(
    gateway: Gateway, upstream: Upstream, stream: bool, reply: Reply
) -> None:
    key = gateway.conversation(QUESTION, "g")
    upstream.reply = lambda body: reply
    asked = {**CHAT, "stream": stream}
    if stream:
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            raw(gateway, "/v1/chat/completions", asked, key)
    else:
        status, _, content = raw(gateway, "/v1/chat/completions", asked, key)
        assert status == 502
        assert json.loads(content)["error"]["type"] == "evoprompt_gateway"
    upstream.reply = lambda body: Reply()
    other = gateway.conversation(QUESTION, "g")
    assert raw(gateway, "/v1/chat/completions", asked, other)[0] == 200
    assert gateway.reward(other, 1.0) == ""
    assert raw(gateway, "/v1/chat/completions", asked, key)[0] == 200
    assert gateway.reward(key, 0.0) == ""
    assert told(gateway.engine)[0]["reward"] == 0.5


def test_a_reward_after_half_an_answer_is_told_as_a_failure(
    gateway: Gateway, upstream: Upstream
) -> None:
    key = gateway.conversation(QUESTION, "g")
    upstream.reply = lambda body: Reply(cut=300)
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        raw(gateway, "/v1/chat/completions", {**CHAT, "stream": True}, key)
    assert "broke off" in gateway.reward(key, 0.0)


def test_nobody_at_the_upstream_is_a_bad_gateway(engine: Engine, tmp_path: Path) -> None:
    with build(engine, tmp_path, "http://127.0.0.1:9/v1") as gateway:
        key = gateway.conversation(QUESTION, "g")
        status, _, content = raw(gateway, "/v1/chat/completions", CHAT, key)
    assert status == 502
    assert b"does not answer" in content


def test_an_agent_that_hangs_up_harms_nobody(gateway: Gateway, upstream: Upstream) -> None:
    upstream.reply = lambda body: Reply("word " * 5_000)
    key = gateway.conversation(QUESTION, "g")
    with agent(gateway, key).chat.completions.create(**CHAT, stream=True) as stream:
        next(iter(stream))
    upstream.reply = lambda body: Reply()
    agent(gateway, key).chat.completions.create(**CHAT)
    assert gateway.reward(key, 1.0) == ""


# ------------------------------------------------------------------------------------- trainers


def test_a_trainer_opens_and_rewards_over_http(gateway: Gateway, upstream: Upstream) -> None:
    keys: list[str] = []
    for _ in range(2):
        opened = {"question": {"id": "q", "text": "2 + 2?", "answers": ["4"]}, "group": "g"}
        status, _, content = raw(gateway, "/conversations", opened, gateway.token)
        assert status == 200
        keys.append(json.loads(content)["key"])
        agent(gateway, keys[-1]).chat.completions.create(**CHAT)
    for key, reward in zip(keys, (1.0, 0.0), strict=True):
        given = {"reward": reward, "feedback": "See above.", "metrics": {"calls": 1}}
        status, _, content = raw(gateway, f"/conversations/{key}/reward", given, gateway.token)
        assert (status, json.loads(content)) == (200, {"counted": True, "why": ""})
    assert told(gateway.engine)[0]["reward"] == 0.5


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/conversations", b"nonsense", 400),
        ("/conversations", b"[1]", 400),
        ("/conversations", {"group": "g"}, 400),
        ("/conversations", {"question": {"id": "q"}, "group": "g"}, 400),
        ("/conversations", {"question": {"id": "q", "text": "?"}, "group": "g", "x": 1}, 400),
        ("/conversations/nobody/reward", {"reward": 1.0}, 404),
        ("/conversations/mine/reward", {"reward": "good"}, 400),
        ("/conversations/mine/reward", b'{"reward": NaN}', 400),
        ("/conversations/mine/reward", {}, 400),
        ("/conversations/mine/reward", {"reward": 1.0, "key": "other"}, 400),
    ],
)
def test_what_a_trainer_gets_wrong_is_said(
    gateway: Gateway, path: str, body: bytes | dict[str, Any], status: int
) -> None:
    gateway.conversation(QUESTION, "g", "mine")
    found, _, content = raw(gateway, path, body, gateway.token)
    assert found == status
    assert json.loads(content)["error"]["message"]
    assert not told(gateway.engine)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("token", ["", "the-token-of-trainers", "té-ken"])
def test_trainers_show_a_token_and_an_agents_key_can_only_talk(
    upstream: Upstream,
    engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    token: str,
) -> None:
    monkeypatch.setenv("EVOPROMPT_GATEWAY_TOKEN", token)
    opened = {"question": {"id": "q", "text": "2 + 2?"}, "group": "g"}
    with build(engine, tmp_path, upstream.url, host=host) as gateway:
        assert len(gateway.token) >= len(token or "x" * 32)
        assert token in ("", gateway.token)
        shown = gateway.token.encode().decode("latin-1")  # http.client writes headers in latin-1
        for wrong in ("", "none", "\xff", gateway.token[:-1].encode().decode("latin-1")):
            status, _, content = raw(gateway, "/conversations", opened, wrong)
            assert status == 401
            assert b"EVOPROMPT_GATEWAY_TOKEN" in content
            assert gateway.token.encode() not in content
        status, _, content = raw(gateway, "/conversations", opened, shown)
        assert status == 200
        key = json.loads(content)["key"]
        assert raw(gateway, "/v1/chat/completions", CHAT, key)[0] == 200
        assert raw(gateway, "/v1/chat/completions", CHAT, shown)[0] == 404
        reward = f"/conversations/{key}/reward"
        for path in (reward, "/conversations/nobody/reward"):
            assert raw(gateway, path, {"reward": 1.0}, key)[0] == 401
        assert raw(gateway, "/conversations", opened, key)[0] == 401
        assert raw(gateway, reward, {"reward": 1.0}, shown)[0] == 200


def test_the_key_in_a_header_is_no_token(gateway: Gateway, upstream: Upstream) -> None:
    key = gateway.conversation(QUESTION, "g")
    agent(gateway, "anything", default_headers={KEY_HEADER: key}).chat.completions.create(**CHAT)
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
    with closing(connection):
        for name, value in ((KEY_HEADER, key), (KEY_HEADER, gateway.token), ("X-Api-Key", key)):
            connection.request("POST", f"/conversations/{key}/reward", b"{}", {name: value})
            with connection.getresponse() as response:
                assert response.status == 401
                response.read()
    assert gateway.reward(key, 1.0) == ""


def test_each_gateway_draws_a_token_of_its_own(upstream: Upstream, tmp_path: Path) -> None:
    tokens = set()
    for name in ("a", "b"):
        with build(BRIEF.build(), tmp_path / name, upstream.url) as gateway:
            tokens.add(gateway.token)
            assert gateway.token not in json.dumps([*gateway.engine.log])
    assert len(tokens) == 2
    assert not any(
        token in file.read_text()
        for token in tokens
        for file in tmp_path.rglob("*")
        if file.is_file()
    )


def test_a_port_that_is_taken_leaves_the_engine_free(
    gateway: Gateway, upstream: Upstream, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"rollouts": 2}
    second = build(BRIEF.build(), tmp_path / "h", upstream.url, port=gateway.port, **settings)
    with pytest.raises(OSError, match="in use"), second:
        pass
    with build(BRIEF.build(), tmp_path / "h", upstream.url, **settings):
        pass
    with pytest.raises(AttachError):
        build(gateway.engine, tmp_path / "i", upstream.url, rollouts=2)


# --------------------------------------------------------------------------------------- budget


def spent(gateway: Gateway) -> Charge:
    return SpendTracker.from_journal(gateway.settings.directory / SPENDING).spent


@pytest.mark.parametrize("stream", [False, True])
def test_what_requests_cost_is_what_the_upstream_says(
    upstream: Upstream, engine: Engine, tmp_path: Path, stream: bool
) -> None:
    with build(engine, tmp_path, upstream.url, budget={"calls": 100}) as gateway:
        key = gateway.conversation(QUESTION, "g")
        asked = {**CHAT, "stream": stream}
        if stream:
            asked["stream_options"] = {"include_usage": True}
        raw(gateway, "/v1/chat/completions", asked, key)
        raw(gateway, "/v1/chat/completions", {**asked, "temprature": 1}, key)  # refused
    charge = spent(gateway)
    used = USAGE["prompt_tokens"], USAGE["completion_tokens"]
    assert (charge.calls, charge.input_tokens, charge.output_tokens) == (2, *used)


@pytest.mark.parametrize(
    ("limits", "asked"),
    [
        ({"calls": 0}, {}),
        ({"tokens": 2_000}, {}),
        ({"tokens": 2_000}, {"max_tokens": 1_000, "n": 2}),
        ({"usd": 0.001}, {"max_completion_tokens": 1_000}),
    ],
)
def test_what_could_go_beyond_the_budget_is_not_asked(
    upstream: Upstream,
    engine: Engine,
    tmp_path: Path,
    limits: dict[str, float],
    asked: dict[str, Any],
) -> None:
    settings = {"budget": limits, "prices": {"input": 1.0, "output": 2.0}}
    with build(engine, tmp_path, upstream.url, **settings) as gateway:
        key = gateway.conversation(QUESTION, "g")
        status, _, content = raw(gateway, "/v1/chat/completions", {**CHAT, **asked}, key)
        assert status == 402
        assert b"budget" in content
        assert "budget" in gateway.reward(key, 0.0)
    assert not upstream.bodies


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
@pytest.mark.parametrize(
    "limit", [-1, 0, -1_000_000_000, True, False, "12", "1e9", 1.5, None, [], 10**400]
)
def test_a_limit_that_limits_nothing_counts_as_none(
    upstream: Upstream, engine: Engine, tmp_path: Path, name: str, limit: object
) -> None:
    with build(engine, tmp_path, upstream.url, budget={"tokens": 20_000}) as gateway:
        key = gateway.conversation(QUESTION, "g")
        given = {**CHAT, "model": "local", name: limit}
        if name == "max_completion_tokens" and limit is not None:
            given["max_tokens"] = 5  # no server says which of the two holds
        for _ in range(3):
            assert raw(gateway, "/v1/chat/completions", given, key)[0] == 402
    assert not upstream.bodies
    with build(BRIEF.build(), tmp_path, upstream.url, budget={"tokens": 20_000}) as again:
        asked = {**CHAT, "max_tokens": 5, "max_completion_tokens": None}
        assert raw(again, "/v1/chat/completions", asked, key)[0] == 200
        assert again.reward(key, 1.0) == ""


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        ({"max_tokens": -1}, 32_768),
        ({"max_tokens": 100, "n": -1}, 100),
        ({"max_tokens": 100, "n": 0}, 100),
        ({"max_tokens": 100, "n": True}, 100),
        ({"max_tokens": 100, "n": None}, 100),
        ({"max_tokens": 100, "n": 1.5}, 100),
        ({"max_tokens": 100, "n": "2"}, 200),
        ({"max_tokens": 100, "n": 2, "best_of": 5}, 500),
        ({"max_output_tokens": 100}, 100),
        ({"max_tokens": 100, "model": "\ud800"}, 100),
    ],
)
def test_what_a_request_may_cost_is_written_so_that_the_next_gateway_reads_it(
    upstream: Upstream, engine: Engine, tmp_path: Path, fields: dict[str, Any], tokens: int
) -> None:
    upstream.reply = lambda body: Reply(raw=b"{}broken")
    with build(engine, tmp_path, upstream.url, budget={"calls": 100}) as gateway:
        key = gateway.conversation(QUESTION, "g")
        asked = {**CHAT, "model": "local", **fields}
        assert raw(gateway, "/v1/chat/completions", asked, key)[0] == 502
    upstream.reply = lambda body: Reply()
    with build(BRIEF.build(), tmp_path, upstream.url, budget={"calls": 100}) as again:
        assert spent(again).output_tokens == tokens
        assert raw(again, "/v1/chat/completions", CHAT, key)[0] == 200


def test_an_answer_that_breaks_off_is_paid_in_full(
    upstream: Upstream, engine: Engine, tmp_path: Path
) -> None:
    upstream.reply = lambda body: Reply(cut=300)
    with build(engine, tmp_path, upstream.url, budget={"calls": 100}) as gateway:
        key = gateway.conversation(QUESTION, "g")
        asked = {**CHAT, "stream": True, "max_tokens": 500}
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            raw(gateway, "/v1/chat/completions", asked, key)
    assert spent(gateway).output_tokens == 500


# ---------------------------------------------------------------------------------- many at once


def test_hundreds_of_conversations_at_once_each_under_its_own_instruction(
    upstream: Upstream, tmp_path: Path
) -> None:
    def reply(body: dict[str, Any]) -> Reply:
        system, question = (message["content"] for message in body["messages"])
        return Reply(f"{system}|{question}")

    upstream.reply = reply
    engine = EngineSpec(("one", "two", "three", "four"), evolves=False).build()
    with build(engine, tmp_path, upstream.url, rollouts=4, groups=25) as gateway:
        keys = [
            gateway.conversation(Question(f"q{number}", "?"), f"g{number}")
            for number in range(25)
            for _ in range(4)
        ]

        async def all_of() -> list[str]:
            async with openai.AsyncOpenAI(base_url=gateway.url, api_key="none") as client:

                async def one(key: str) -> str:
                    mine = client.with_options(api_key=key)
                    asked = [{"role": "user", "content": key}]
                    create: Callable[..., Any] = mine.chat.completions.create
                    came = await create(model=MODEL, messages=asked)
                    return str(came.choices[0].message.content)

                return list(await asyncio.gather(*map(one, keys)))

        answers = asyncio.run(all_of())
        assert [answer.split("|")[1] for answer in answers] == keys
        under = [answer.split("|")[0] for answer in answers]
        assert all(len(set(under[at : at + 4])) == 4 for at in range(0, 100, 4))
        for key, instruction in zip(keys, under, strict=True):
            gateway.reward(key, float(instruction == "two"))
        assert engine.step == 1
        best = max(engine.candidate_stats(), key=lambda stats: stats.weight)
        assert best.candidate.instruction == "two"
