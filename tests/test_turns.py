"""Turns as a reader needs them, with what the chat templates of common models leave in them."""

from __future__ import annotations

import pytest

from evoprompt.log.summaries import excerpts_of
from evoprompt.log.turns import readable, render_episode
from evoprompt.types import Assignment, Candidate, Question, Trajectory, Turn

QWEN = "<|im_end|>\n<|im_start|>user\n<tool_response>\n{}\n</tool_response><|im_end|>\n"
OBSERVATIONS = {
    "qwen, whole": QWEN.format("42") + "<|im_start|>assistant\n",
    "qwen, without special tokens": "\nuser\n<tool_response>\n42\n</tool_response>\nassistant\n",
    "qwen that thinks": "\nuser\n<tool_response>\n42\n</tool_response>\nassistant\n<think>\n",
    "qwen that does not": "user\n<tool_response>\n42\n</tool_response>\nassistant\n<think>\n\n"
    "</think>\n\n",
    "qwen that thinks, whole": QWEN.format("42") + "<|im_start|>assistant\n<think>\n",
    "llama, whole": "<|start_header_id|>ipython<|end_header_id|>\n\n42<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "llama, without special tokens": "ipython\n\n42assistant\n\n",
    "gemma, whole": "<end_of_turn>\n<start_of_turn>user\n42<end_of_turn>\n<start_of_turn>model\n",
    "gemma, without special tokens": "\nuser\n42\nmodel\n",
    "deepseek, whole": "".join(
        f"<\uff5ctool\u2581{mark}\uff5c>{said}"
        for mark, said in (("output\u2581begin", "42"), ("output\u2581end", ""))
    ),
    "plain": "42",
}


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_of_an_observation_what_the_tool_said_is_left(name: str) -> None:
    assert readable(Turn("", OBSERVATIONS[name])).seen == "42"


@pytest.mark.parametrize(
    "text",
    [
        "user\nalice\nbob",  # a column of a table
        "the user\nasked the assistant",
        "<information>\nDoc 1(Title: user)\n</information>",
        "tool\nhammer",
        "<s>old</s> new",
        "a < b | c > d",
    ],
)
def test_what_an_environment_really_said_stays(text: str) -> None:
    assert readable(Turn("", text)).seen == text


@pytest.mark.parametrize(
    ("action", "thought", "said"),
    [
        ("<think>\nHm.\n</think>\n\nIt is 4.<|im_end|>", "Hm.", "It is 4."),
        ("Hm.</think>It is 4.", "Hm.", "It is 4."),
        ("<think>Hm, and", "Hm, and", ""),
        ("<think>\n\n</think>\n\nIt is 4.", "", "It is 4."),
        (
            "<think>a</think> <search>x</search> <think>b</think> c",
            "a\nb",
            "<search>x</search>  c",
        ),
        ("It is 4.", "", "It is 4."),
        ("Look.\n<think>\nHm", "Hm", "Look."),
        ("Put it after <think> and wait.", "", "Put it after <think> and wait."),
        ("Write `<think>`, then `</think>`.", "", "Write `<think>`, then `</think>`."),
        ("<think>Not '</think>'.</think>4", "Not '</think>'.", "4"),
        ("\u25c1think\u25b7Hm.\u25c1/think\u25b7It is 4.", "Hm.", "It is 4."),
        ("Hm.\u25c1/think\u25b7It is 4.", "Hm.", "It is 4."),
        ("<|begin_of_thought|>Hm.<|end_of_thought|>It is 4.", "Hm.", "It is 4."),
        ("<|START_THINKING|>Hm.<|END_THINKING|>It is 4.", "Hm.", "It is 4."),
        ("<a><thinking>x</thinking></a>", "", "<a><thinking>x</thinking></a>"),
        (
            '<tool_call>\n{"name": "add"}\n</tool_call>',
            "",
            '<tool_call>\n{"name": "add"}\n</tool_call>',
        ),
        ("Write <|answer|> here.", "", "Write <|answer|> here."),
    ],
)
def test_the_thought_stands_apart_from_what_was_said(action: str, thought: str, said: str) -> None:
    assert readable(Turn(action))[:2] == (thought, said)


def thinking() -> Trajectory:
    turns = (
        Turn("I add.</think>\n<tool_call>add(1, 2)</tool_call>", OBSERVATIONS["qwen that thinks"]),
        Turn("So it is 42.</think>\n\nForty-two.<|im_end|>"),
    )
    question = Question("q", "What is it?", ("42",))
    asked = Assignment("a", question, Candidate("c0", {"instruction": "Add."}), 1, "g")
    return Trajectory(asked, 0.0, turns=turns)


def test_an_episode_is_told_so() -> None:
    assert render_episode(thinking()) == (
        "Question: What is it?\n"
        "Correct answer: 42\n"
        "Agent, thinking: I add.\n"
        "Agent: <tool_call>add(1, 2)</tool_call>\n"
        "Environment: 42\n"
        "Agent, thinking: So it is 42.\n"
        "Agent, at last: Forty-two."
    )


def test_a_person_is_shown_the_same() -> None:
    (excerpt,) = excerpts_of([thinking()])
    assert [turn.observation for turn in excerpt.turns] == ["42", ""]
    assert excerpt.turns[1].action == "<think>So it is 42.</think>\nForty-two."
    assert excerpt.left_out == 0


def test_however_long_an_episode_is_it_is_read_at_once() -> None:
    for text in ("user\n" + " " * 10**6, "<think>" * 10**5, " " * 10**6 + "x", "</think>" * 10**5):
        readable(Turn(text, text))
