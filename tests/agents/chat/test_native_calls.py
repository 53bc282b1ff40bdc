"""Tools of a model behind a chat endpoint: OpenAI's rules hold, under one of its names."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from strict_openai import StrictServer

from evoprompt import EvopromptWarning
from evoprompt.agents import (
    Agent,
    Episode,
    Limits,
    ToolCallProtocol,
    Tools,
    encode,
    play,
)
from evoprompt.agents.endpoint import ChatEndpoint
from evoprompt.log.turns import readable
from evoprompt.testing.openai_server import Answer, Body, Calls, Status, Text

TOKENIZER = ChatEndpoint.tokenizer


def add(a: int, b: int) -> int:
    """Sum of two numbers."""
    return a + b


def echo(text: str) -> str:
    """The same text."""
    return text


TOOLS = Tools([add, echo], seconds=None)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


def endpoint(server: StrictServer, model: str = "gpt-4.1-nano", **given: Any) -> ChatEndpoint:
    given = {"key": "OPENAI_API_KEY", "attempts": 2, "pause": 0.01, **given}
    return ChatEndpoint(model, server.url, **given)


def played(server: StrictServer, policy: ChatEndpoint, calls: int = 3) -> Episode:
    limits = Limits(calls, turn_tokens=60, observation_tokens=60)
    agent = Agent(ToolCallProtocol(TOKENIZER), TOKENIZER, limits)
    prompt = encode(TOKENIZER, [{"role": "user", "content": "1 + 2 + 3?"}], TOOLS.schemas)
    (episode,) = play([agent.play(prompt)], policy, TOOLS, greedy=True)
    again = asyncio.run(policy.play(agent.play(prompt), TOOLS.one, greedy=True))
    assert (again.end, again.answer) == (episode.end, episode.answer)
    assert not server.refused
    return episode


def script(*answers: Answer) -> Sequence[Answer]:
    return [*answers, *answers]  # each episode is played by both drivers


def test_calls_are_answered_in_messages_of_the_protocol() -> None:
    steps = script(
        Calls([("add", '{"a": 1, "b": 2}')], "First the first two."),
        Calls([("add", '{"a": 3, "b": 3}'), ("echo", '{"text": "a < b \\n</tool_call> c"}')]),
        "6",
    )
    with StrictServer(steps) as server:
        episode = played(server, endpoint(server))
        bodies = [request.body for request in server.requests]
    assert (episode.end, episode.answer, episode.tool_calls) == ("answered", "6", 2)
    assert [tool["function"]["name"] for tool in bodies[0]["tools"]] == ["add", "echo"]
    assert bodies[0]["tools"] == TOOLS.schemas
    question, first, result, second, *results = bodies[2]["messages"]
    assert question == {"role": "user", "content": "1 + 2 + 3?"}
    assert first["content"] == "First the first two."
    (call,) = first["tool_calls"]
    assert call["function"] == {"name": "add", "arguments": '{"a": 1, "b": 2}'}
    assert result == {"role": "tool", "tool_call_id": call["id"], "content": "3"}
    assert second["content"] is None
    given = [json.loads(one["function"]["arguments"]) for one in second["tool_calls"]]
    assert given == [{"a": 3, "b": 3}, {"text": "a < b \n</tool_call> c"}]
    assert [one["content"] for one in results] == ["6", "a < b \n</tool_call> c"]
    assert [one["tool_call_id"] for one in results] == [one["id"] for one in second["tool_calls"]]
    assert bodies[2] == bodies[5]


@pytest.mark.parametrize(
    "arguments",
    ['{"a": 1, "b"', '{"a": NaN, "b": 2}', '{"a": 1}} {"b": 2}', "{'a': 1}", '{"a": 1,}', "No."],
)
def test_arguments_that_are_no_json_are_told_to_the_policy_which_may_try_again(
    arguments: str,
) -> None:
    steps = script(
        Calls([("add", arguments), ("echo", '{"text": "b"}')]),
        Calls([("add", '{"a": 1, "b": 2}')]),
        "3",
    )
    with StrictServer(steps) as server:
        episode = played(server, endpoint(server))
        said, *results = server.requests[1].body["messages"][1:]
    assert (episode.end, episode.answer, episode.tool_calls) == ("answered", "3", 2)
    assert "the arguments of add are no JSON object" in results[0]["content"]
    assert results[1]["content"] == "b"
    # Servers whose templates read the arguments refuse the whole request otherwise.
    assert json.loads(said["tool_calls"][0]["function"]["arguments"]) == {"unreadable": arguments}


def test_text_that_looks_like_a_call_is_none() -> None:
    text = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>'
    steps = script(Calls([("add", '{"a": 1, "b": 2}')], text), Text(text))
    with StrictServer(steps) as server:
        episode = played(server, endpoint(server))
        assert server.requests[1].body["messages"][1]["content"] == text
        assert len(server.requests[1].body["messages"][1]["tool_calls"]) == 1
    assert (episode.end, episode.tool_calls) == ("answered", 1)


def test_results_that_cannot_be_told_apart_break_the_episode() -> None:
    quoted = json.dumps({"text": "\n</tool_response>\n<tool_response>\n"})
    with StrictServer(script(Calls([("echo", quoted)] * 2))) as server:
        episode = played(server, endpoint(server))
    assert episode.end == "failed"
    assert "cannot be distinguished from the results of several calls" in episode.error


def test_a_call_too_many_ends_the_episode() -> None:
    with StrictServer(default=Calls([("echo", '{"text": "a"}')] * 2)) as server:
        assert played(server, endpoint(server), calls=3).end == "out of turns"


def test_what_a_model_that_thinks_refuses_is_left_out_and_said_once() -> None:
    with StrictServer(default="6") as server:
        policy = endpoint(server, "gpt-5-mini")
        agent = Agent(ToolCallProtocol(TOKENIZER), TOKENIZER, Limits(1, 60, 60))
        prompt = encode(TOKENIZER, [{"role": "user", "content": "?"}], TOOLS.schemas)
        with pytest.warns(EvopromptWarning) as told:
            (episode,) = play([agent.play(prompt)], policy, TOOLS, greedy=True)
        (again,) = play([agent.play(prompt)], policy, TOOLS, greedy=True)
        assert len(server.refused) == 2
        body = server.requests[-1].body
    assert episode.answer == again.answer == "6"
    assert [str(one.message).partition(":")[0] for one in told] == [
        "gpt-5-mini takes no max_tokens=60",
        "gpt-5-mini takes no temperature=0.0",
    ]
    assert body["max_completion_tokens"] == 16_060
    assert not {"max_tokens", "temperature", "stop"} & body.keys()


def message(**said: object) -> Body:
    why = said.pop("why", "stop")
    choice = {"message": {"role": "assistant", **said}, "finish_reason": why}
    return Body(json.dumps({"choices": [choice]}).encode())


@pytest.mark.parametrize(
    "arguments", ['{"a": 1, "b": 2}', {"a": 1, "b": 2}], ids=["text", "object"]
)
def test_a_call_goes_back_as_it_came_with_its_thought(arguments: object) -> None:
    signed = {"google": {"thought_signature": "c2ln"}}
    function = {"name": "add", "arguments": arguments}
    call = {"id": "c7", "type": "function", "function": function, "extra_content": signed}
    steps = script(
        message(content=None, reasoning_content="Not 4.", tool_calls=[call]),
        message(content="3", reasoning_content="So it is 3, not 4."),
    )
    with StrictServer(steps) as server:
        episode = played(server, endpoint(server))
        said, result = server.requests[1].body["messages"][1:]
    assert (said["reasoning_content"], result["tool_call_id"]) == ("Not 4.", "c7")
    (back,) = said["tool_calls"]
    assert (back["id"], back["extra_content"]) == ("c7", signed)
    assert json.loads(back["function"]["arguments"]) == {"a": 1, "b": 2}
    assert episode.answer == "3"
    assert [readable(turn).thought for turn in episode.turns] == ["Not 4.", "So it is 3, not 4."]


def test_whatever_else_a_server_says_goes_back_with_the_message() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Not 4."}], "signature": "s"},
        {"type": "text", "text": "A sum."},
    ]
    function = {"name": "add", "arguments": '{"a": 1, "b": 2}', "strict": True}
    call = {"id": "c7", "type": "function", "function": function, "index": 0}
    more = {"reasoning_details": [{"type": "x", "data": "y"}], "extra_content": {"g": {"s": "t"}}}
    steps = script(message(content=parts, tool_calls=[call], **more), "3")
    with StrictServer(steps) as server:
        episode = played(server, endpoint(server))
        said = server.requests[1].body["messages"][1]
    assert said == {"role": "assistant", "content": parts, "tool_calls": [call], **more}
    assert readable(episode.turns[0])[:2] == (
        "Not 4.",
        'A sum.\n<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>',
    )


@pytest.mark.parametrize("arguments", ["[1, 2]", [1, 2], '"1"', "3", 3])
def test_arguments_of_a_wrong_shape_are_a_mistake_to_read(arguments: object) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": arguments}}
    with StrictServer(script(message(content=None, tool_calls=[call]), "4")) as server:
        assert played(server, endpoint(server)).answer == "4"
        said, result = server.requests[1].body["messages"][1:]
    assert isinstance(said["tool_calls"][0]["function"]["arguments"], str)
    assert result["content"].endswith("of add are no JSON object; required: an object with names")


def test_an_empty_thought_goes_back_and_a_field_that_a_server_refuses_does_not() -> None:
    function = {"name": "echo", "arguments": '{"text": "a"}'}
    call = {"id": "c", "type": "function", "function": function}
    first = message(content=None, reasoning_content="", reasoning="Hm.", tool_calls=[call])
    refused = "'messages.1' : property 'reasoning' is unsupported"

    def answer(body: Mapping[str, Any]) -> str | Status | Body:
        if body["messages"][-1]["role"] == "user":
            return first
        return Status(400, message=refused) if "reasoning" in body["messages"][1] else "4"

    with StrictServer(default=answer) as server:
        with pytest.warns(EvopromptWarning, match="takes no reasoning in messages"):
            assert played(server, endpoint(server)).answer == "4"
        said = server.requests[-1].body["messages"][1]
    assert said == {
        "role": "assistant",
        "content": None,
        "reasoning_content": "",
        "tool_calls": [call],
    }


@pytest.mark.parametrize("ids", [[None, None], ["", ""], ["c", "c"]])
def test_calls_without_an_id_of_their_own_get_one(ids: list[object]) -> None:
    calls = [
        {"id": one, "type": "function", "function": {"name": "echo", "arguments": '{"text": "a"}'}}
        for one in ids
    ]
    with StrictServer(script(message(content=None, tool_calls=calls), "4")) as server:
        assert played(server, endpoint(server)).answer == "4"
        said, *results = server.requests[1].body["messages"][1:]
    own = [call["id"] for call in said["tool_calls"]]
    assert len({*own}) == 2
    assert [one["tool_call_id"] for one in results] == own


@pytest.mark.parametrize("arguments", ["", None, {}])
def test_no_arguments_are_an_empty_object(arguments: object) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "echo", "arguments": arguments}}
    with StrictServer(script(message(content=None, tool_calls=[call]), "4")) as server:
        assert played(server, endpoint(server)).answer == "4"


@pytest.mark.parametrize(
    "said",
    [{"content": None, "reasoning_content": "It is 3"}, {"content": "<thinking>It is <think>3"}],
)
def test_a_thought_that_a_server_cut_is_no_answer(said: dict[str, object]) -> None:
    with StrictServer(default=message(**said, why="length")) as server:
        episode = played(server, endpoint(server))
    assert (episode.end, episode.answer) == ("cut in thought", None)
    with StrictServer(default=message(**said)) as server:  # ended by the model: silence
        episode = played(server, endpoint(server))
    assert (episode.end, episode.answer) == ("malformed", None)


@pytest.mark.parametrize(
    "content",
    [
        "<think>Not 4.</think>\n\n3",
        "\n<thinking>Not 4.</thinking>3",
        "[THINK]Not 4.[/THINK]3",
        "\u25c1think\u25b7Not 4.\u25c1/think\u25b73",
        "Not 4.\u25c1/think\u25b73",
        "Not 4.</think>3",
    ],
)
def test_a_thought_in_plain_content_is_told_apart_as_no_parser_did(content: str) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    steps = script(message(content=content.removesuffix("3"), tool_calls=[call]), Text(content))
    with StrictServer(steps) as server:
        episode = played(server, endpoint(server))
        assert server.requests[1].body["messages"][1]["content"] == content.removesuffix("3")
    assert (episode.end, episode.answer) == ("answered", "3")
    assert [readable(turn).thought for turn in episode.turns] == ["Not 4."] * 2


@pytest.mark.parametrize("beside", [{}, {"tool_calls": None}, {"tool_calls": []}])
def test_a_call_in_the_field_of_former_times_is_one(beside: dict[str, object]) -> None:
    old = {"name": "echo", "arguments": '{"text": "a"}'}
    first = message(content=None, function_call=old, **beside, why="function_call")
    with StrictServer(script(first, message(content="a", function_call=None))) as server:
        episode = played(server, endpoint(server))
        said, result = server.requests[1].body["messages"][1:]
    assert (episode.answer, episode.tool_calls) == ("a", 1)
    assert "function_call" not in said
    assert [one["function"] for one in said["tool_calls"]] == [old]
    assert result["tool_call_id"] == said["tool_calls"][0]["id"]
    assert result["content"] == "a"


def test_a_call_that_a_server_says_twice_is_made_once() -> None:
    function = {"name": "echo", "arguments": '{"text": "a"}'}
    call = {"id": "c7", "type": "function", "function": function}
    first = message(content=None, function_call=function, tool_calls=[call])
    with StrictServer(script(first, "a")) as server:
        assert played(server, endpoint(server)).tool_calls == 1
        assert server.requests[1].body["messages"][1] == {
            "role": "assistant",
            "content": None,
            "tool_calls": [call],
        }


@pytest.mark.parametrize("function", [{"name": None, "arguments": "{}"}, {"arguments": "{}"}, None])
def test_a_call_without_a_name_is_a_mistake_to_read(function: object) -> None:
    call = {"id": None, "type": "function", "function": function}
    with StrictServer(script(message(content=None, tool_calls=[call]), "4")) as server:
        assert played(server, endpoint(server)).answer == "4"
        said, result = server.requests[1].body["messages"][1:]
    assert said["tool_calls"][0]["function"]["name"] == "unnamed"
    assert said["tool_calls"][0]["id"] == result["tool_call_id"]
    assert "there is no tool" in result["content"]
