from __future__ import annotations

from evoprompt_tiny.template import END, call_phrases
from evoprompt_tiny.vocabulary import build_tokenizer
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from evoprompt.agents import Agent, Limits, ToolCall, ToolCallProtocol, encode

OPENING, CLOSING = call_phrases("look", "at")
KNOWN = build_tokenizer([" Look to the left.", "Look", " door"], [OPENING, CLOSING])
SCHEMA = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "What is there.",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
    },
}


def ids(text: str, tokenizer: PreTrainedTokenizerFast = KNOWN) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False))


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_every_text_comes_back_as_it_was(text: str) -> None:
    assert KNOWN.decode(ids(text), skip_special_tokens=False) == text


def test_the_template_shows_instruction_tools_and_question() -> None:
    messages = [
        {"role": "system", "content": "Look to the left."},
        {"role": "user", "content": "Look"},
    ]
    assert KNOWN.decode(encode(KNOWN, messages, [SCHEMA])) == (
        "<|im_start|>system Look to the left.\nlook(at): What is there.<|im_end|>\n"
        "<|im_start|>user Look<|im_end|>\n<|im_start|>assistant\n"
    )
    assert KNOWN.decode(encode(KNOWN, messages[1:])) == (
        "<|im_start|>user Look<|im_end|>\n<|im_start|>assistant\n"
    )


def test_tool_calls_are_read_off_the_template() -> None:
    protocol = ToolCallProtocol(KNOWN)
    move = protocol.read(f"{OPENING}left{CLOSING}{END}")
    assert move.calls == (ToolCall("look", {"at": "left"}),)
    agent = Agent(protocol, KNOWN, Limits(calls=1, turn_tokens=9, observation_tokens=12))
    assert agent.observation(move.calls, ["door"], END)[1] == (
        "\n<|im_start|>user\n<tool_response>\ndoor\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    )
