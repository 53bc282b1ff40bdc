"""A request under a candidate: its texts are placed, and every other byte is as it was."""

from __future__ import annotations

import json

import pytest

from evoprompt import Candidate, InputError
from evoprompt.gateway.rewriting import Body
from evoprompt.hosting.prompts import Render, replace_system_message, system_message, user_prefix

CANDIDATE = Candidate("c1", {"instruction": "Be brief.", "tool:look": "Looks left."})


def placed(raw: str, render: Render = system_message) -> str:
    return Body(raw.encode()).place_texts(CANDIDATE, render).decode()


def test_a_system_message_is_put_first_and_nothing_else_changes() -> None:
    rest = '{"role":  "user",\n "content": "gr\\u00fc\\u00dfe ü 1e400"} ], "x": 1.0e0 ,"y":[ ] }\n'
    raw = ' {"temperature" :1.00, "messages": [ ' + rest
    found = placed(raw)
    added = '{"role": "system", "content": "Be brief."}, '
    assert found == raw.replace('[ {"role"', f'[ {added}{{"role"')


def test_the_agents_own_system_message_stays_before_the_instruction() -> None:
    raw = '{"messages":[{"role":"system","content":"Own."},{"role":"user","content":"a"}]}'
    found = placed(raw)
    assert json.loads(found)["messages"][0]["content"] == "Own.\n\nBe brief."
    assert found.endswith('},{"role":"user","content":"a"}]}')


def test_it_can_be_replaced_or_stand_before_the_first_question() -> None:
    raw = '{"messages": [{"role":"system","content":"Own."} , {"role":"user","content":"a"}] }'
    replaced = placed(raw, replace_system_message)
    assert [one["content"] for one in json.loads(replaced)["messages"]] == ["Be brief.", "a"]
    prefixed = placed(raw, user_prefix)
    assert [one["content"] for one in json.loads(prefixed)["messages"]] == [
        "Own.",
        "Be brief.\n\na",
    ]
    assert '{"role":"system","content":"Own."}' in prefixed


def test_a_developer_message_stays_one() -> None:
    raw = '{"messages": [{"role": "developer", "content": "Own."}]}'
    only = {"role": "developer", "content": "Own.\n\nBe brief."}
    assert json.loads(placed(raw))["messages"] == [only]


def test_parts_of_a_message_such_as_pictures_stay() -> None:
    image = '{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}'
    raw = f'{{"messages":[{{"role":"user","content":[{image}]}}]}}'
    assert image in placed(raw)


def test_descriptions_of_tools_are_those_of_the_candidate_and_other_tools_stay() -> None:
    other = '{"type":"function" ,"function":{"name":"add","description":"Adds."}}'
    look = '{"type": "function", "function": {"name": "look", "parameters": {}}}'
    raw = f'{{"tools":[{other}, {look}],"messages":[{{"role":"user","content":"a"}}]}}'
    found = placed(raw)
    assert other in found
    second = json.loads(found)["tools"][1]["function"]
    assert second == {"name": "look", "parameters": {}, "description": "Looks left."}


def test_a_completion_has_the_instruction_before_its_prompt() -> None:
    found = placed('{"n":1.0,"prompt":"Say","stop":"\\u0041"}')
    assert found == '{"n":1.0,"prompt":"Be brief.\\n\\nSay","stop":"\\u0041"}'


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"[]", b"nonsense", b'{"messages": ', b"\xff{}", b'"messages"', b"[[1, 2]]"),
        *(b"{}", b'{"messages": []}', b'{"messages": "a"}', b'{"messages": ["a"]}'),
        *(b'{"prompt": [1, 2]}', b'{"prompt": null}', b'{"prompt": ["a"]}', b"[" * 100_000),
        b'{"messages": [{"role": "user", "content": "a"}], "messages": []}',
        b'{"messages": [{"role": "user", "content": "a"}]} {}',
    ],
)
def test_what_has_no_one_place_for_an_instruction_is_refused(raw: bytes) -> None:
    with pytest.raises(InputError, match="required"):
        Body(raw).place_texts(CANDIDATE, system_message)


def test_a_chat_with_a_field_named_prompt_is_a_chat() -> None:
    found = json.loads(placed('{"prompt": "a", "messages": [{"role": "user", "content": "b"}]}'))
    assert (found["prompt"], found["messages"][0]["content"]) == ("a", "Be brief.")


def test_what_an_agent_said_last_is_what_follows_the_last_answer() -> None:
    messages = [
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "content": "12"},
        {"role": "user", "content": [{"type": "text", "text": "Go on."}]},
    ]
    assert Body(json.dumps({"messages": messages}).encode()).read_observation() == "12\nGo on."


@pytest.mark.parametrize(
    "raw",
    [
        *(
            "",
            " ",
            "null",
            "[]",
            "3",
            '"a"',
            "{",
            "}",
            '{"a"',
            '{"a":',
            '{"a":1',
            '{"a":1,',
            '{"a":1,}',
        ),
        *('{"a" 1}', '{"a"::1}', '{"a":1 "b":2}', '{"a":1,,"b":2}', "{'a':1}", "{a:1}", "{1:2}"),
        *('{"a":[1,]}', '{"a":[1 2]}', '{"a":1]', '{"a":1}}', '{"a":1} x', '{"a":1}{"a":1}'),
        *('{"a":01}', '{"a":+1}', '{"a":.5}', '{"a":tru}', '{"a":"\t"}', '{"a":1;"b":2}', '{"a":}'),
    ],
)
def test_what_is_no_json_object_is_refused(raw: str) -> None:
    with pytest.raises(InputError, match="no JSON object"):
        Body(raw.encode())


@pytest.mark.parametrize(
    "raw", ["{}", " { } ", '{"a":{"b":[]}, "c" :[{},[1]] }\n', '{"a":NaN}', '{"\\u0061":"\\ud800"}']
)
def test_values_are_those_of_json(raw: str) -> None:
    assert repr(Body(raw.encode()).fields) == repr(json.loads(raw))
