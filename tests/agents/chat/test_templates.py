"""The chat templates that TRL bundles: what a model of each family writes, thinks and is shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from chat_templates import (
    NAMES,
    RESULT,
    TOOLS,
    VALUE,
    Script,
    action_of,
    called,
    look,
    row,
    shows_as_written,
    table,
    tokenizer_of,
)
from transformers import PreTrainedTokenizerFast
from trl.chat_template_utils import supports_tool_calling

from evoprompt.agents import Agent, Episode, Limits, ToolCall, ToolCallProtocol, Tools, play
from evoprompt.agents.protocol import AnswerProtocol as Answers
from evoprompt.agents.tasks import CUT_IN_THOUGHT, EpisodeRunner, Score, Task, scored
from evoprompt.agents.thoughts import marks_of, reader_of
from evoprompt.log.turns import readable
from evoprompt.types import Question, Turn

TOOL_CAPABLE = [name for name in NAMES if supports_tool_calling(tokenizer_of(name))]
DOCUMENT = Path(__file__).parents[3] / "docs" / "templates.md"


def test_the_document_says_what_is_played() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == table()


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("_training")])
def test_a_template_to_train_with_is_played_as_the_one_it_was_made_from(name: str) -> None:
    plain = name.removesuffix("_training")
    assert row(name).replace(name, plain) == row(plain)


@pytest.mark.parametrize("name", TOOL_CAPABLE)
def test_calls_are_read_and_answered_as_the_template_writes_them_and_not_within_thoughts(
    name: str,
) -> None:
    tokenizer = tokenizer_of(name)
    said = action_of(tokenizer, {"far": 3, "at": VALUE})
    protocol = ToolCallProtocol(tokenizer)
    (call,) = protocol.read(said).calls
    assert call.name == "look"
    assert {key: str(value) for key, value in call.arguments.items()} == {"at": VALUE, "far": "3"}
    assert TOOLS([call]) == [RESULT]
    episode, script = called(tokenizer)
    assert (episode.end, episode.tool_calls) == ("answered", 1)
    first, second = script.contexts
    assert second[: len(first)] == first
    assert episode.context[: len(second)] == second
    assert shows_as_written(tokenizer)

    check_calls_side_by_side(tokenizer, protocol)
    check_a_call_within_a_thought(tokenizer, protocol)


def taking(kind: Any) -> Tools:
    """A tool that gives back its argument, of some type."""

    def look(at: object, far: int = 0) -> str:
        """Looks."""
        return json.dumps(at)

    look.__annotations__["at"] = kind
    return Tools([look], seconds=None)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (list[int], [1, 2]),
        (list[str], ['a "b"', "c, d"]),
        (list[str], []),
        (dict[str, Any], {"a": [{"b": None}]}),
        (bool, True),
        (float, -1.5),
        (str, "a\nb: {c}"),
    ],
)
def test_arguments_of_every_kind_reach_the_tool(kind: Any, value: object) -> None:
    tools = taking(kind)
    for name in TOOL_CAPABLE:
        tokenizer = tokenizer_of(name)
        said = action_of(tokenizer, {"at": value, "far": 2})
        assert tools(ToolCallProtocol(tokenizer).read(said).calls) == [json.dumps(value)], name


HOSTILE = (
    "{opening}", "{opening}look", "{opening}look{{a:", "x{quote}", "<think>", '{{"name":', "[("
)  # fmt: skip


def test_a_hostile_action_is_read_once_in_every_form() -> None:
    for name in ("gemma4", "qwen3", "qwen3_6", "llama3_1", "gptoss", "lfm2_2_5", "muse_glimmer"):
        protocol = ToolCallProtocol(tokenizer_of(name))
        opening, quote = protocol._form.opening, '<|"|>'
        for piece in HOSTILE:  # a way of reading that is quadratic does not come back
            again = piece.format(opening=opening, quote=quote) * 30_000
            calls = protocol.read(f"{opening}look{{a:{quote}{again}").calls
            assert all(call.fault for call in calls)


def check_calls_side_by_side(
    tokenizer: PreTrainedTokenizerFast, protocol: ToolCallProtocol
) -> None:
    try:
        said = action_of(tokenizer, {"at": "a-4b1f"}, {"at": "b-4b1f"})
    except Exception:  # the template's own
        said = ""
    found = protocol.read(said).calls
    if "b-4b1f" in said:
        assert found == (ToolCall("look", {"at": "a-4b1f"}), ToolCall("look", {"at": "b-4b1f"}))
    else:
        assert len(found) < 2


def check_a_call_within_a_thought(
    tokenizer: PreTrainedTokenizerFast, protocol: ToolCallProtocol
) -> None:
    marks = marks_of(tokenizer)
    call = action_of(tokenizer, {"at": VALUE})
    thought = f"{marks.opening}\nI could {call.replace(marks.closing, '')}{marks.closing}\n\n"
    assert protocol.read(f"{thought}{call}").calls == (ToolCall("look", {"at": VALUE}),)
    answered = protocol.read(f"{thought}{marks.heading}51<|im_end|>")
    assert (answered.calls, answered.answer) == ((), "51")
    cut = protocol.read(f"{marks.opening}\nI could {call.replace(marks.closing, '')}")
    assert (cut.calls, cut.answer, cut.cut) == ((), None, True)


def test_a_thought_that_a_template_opens_is_shown_apart() -> None:
    for name in NAMES:
        tokenizer = tokenizer_of(name)
        marks = marks_of(tokenizer)
        agent = Agent(Answers(), tokenizer, Limits(0, 200, 0))
        prompt = tokenizer.encode(f"Why? {marks.opening}\n", add_special_tokens=False)
        said = f"Hm.\n{marks.closing}\n\n{marks.heading}51<|im_end|>"
        (episode,) = play([agent.play(prompt)], Script(tokenizer, said), TOOLS)
        assert episode.answer == "51", name
        assert readable(episode.turns[0])[:2] == ("Hm.", "51"), name


@pytest.mark.parametrize("end", ["<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"])
def test_every_end_token_of_a_model_ends_its_turn(end: str) -> None:
    tokenizer = tokenizer_of("llama3_1")
    ends = ["<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"]
    tokenizer.add_special_tokens({"eos_token": ends[0], "additional_special_tokens": ends[1:]})
    protocol = ToolCallProtocol(tokenizer)
    said = f'{{"name": "look", "parameters": {{"at": "left"}}}}{end}'
    call = ToolCall("look", {"at": "left"})
    assert protocol.read(said).calls == (call,)
    assert protocol.read(f"51{end}").answer == "51"
    assert protocol.frame([call], said)[0].startswith("<|start_header_id|>ipython")
    assert protocol.frame([call], said.removesuffix(end))[0].startswith("<|eot_id|><|start_header")


class Asked(Task):
    """A question whose model is told not to think."""

    seed_instructions = ("Answer.",)
    tools = (look,)

    def questions(self, split: str) -> Sequence[Question]:
        """One question."""
        return [Question("q", "Where?", ("There.",))]

    def score(self, episode: Episode, question: Question) -> Score:
        """Whether it was answered."""
        return Score(float(episode.answer == "There."))


@pytest.mark.parametrize("thinking", [True, False])
def test_variables_of_the_template_are_in_every_prompt(thinking: bool) -> None:
    tokenizer = tokenizer_of("qwen3")
    runner = EpisodeRunner(Asked(), tokenizer, Limits(2, 900, 900), {"enable_thinking": thinking})
    prompt = runner.prompt(Asked().questions("train")[0])
    closed = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    call = '<tool_call>\n{"name": "look", "arguments": {"at": "left"}}\n</tool_call><|im_end|>'
    script = Script(tokenizer, call, "There.<|im_end|>")
    (episode,) = play([runner.play(prompt)], script, TOOLS)
    assert episode.answer == "There."
    assert [str(tokenizer.decode(one)).endswith(closed) for one in script.contexts] == [
        not thinking
    ] * 2
    assert runner.encode(prompt) == episode.prompt_ids


def test_a_thought_that_was_cut_is_said_so() -> None:
    task, tokenizer = Asked(), tokenizer_of("qwen3")
    (question,) = task.questions("train")
    runner = EpisodeRunner(task, tokenizer, Limits(2, 900, 900))
    script = Script(tokenizer, "<think>\nThere.")
    (episode,) = play([runner.play(runner.prompt(question))], script, TOOLS)
    assert (episode.end, episode.answer) == ("cut in thought", None)
    score = scored(task, episode, question)
    assert score is not None
    assert (score.reward, score.feedback) == (0.0, CUT_IN_THOUGHT)


@pytest.mark.parametrize("special", [False, True])
def test_a_thought_is_read_apart_whether_its_marks_are_special_tokens_or_not(special: bool) -> None:
    tokenizer = tokenizer_of("qwen3")
    if special:
        tokenizer.add_special_tokens({"additional_special_tokens": ["<think>", "</think>"]})
    spans = ["<think>\n3 or 4.\n</think>\n\n4<|im_end|>", "3<|im_end|>"]
    ids = [tokenizer.encode(span, add_special_tokens=False) for span in spans]
    thought, plain = [readable(Turn(text)) for text in reader_of(tokenizer)(ids)]
    assert (thought.thought, thought.said) == ("3 or 4.", "4")
    assert (plain.thought, plain.said) == ("", "3")
