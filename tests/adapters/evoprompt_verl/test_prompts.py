"""Prompts are measured with the run's own tokenizer before veRL could cut them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from evoprompt_verl.prompts import PromptWriter, longest

from evoprompt.errors import InputError
from evoprompt.prompts import system_message, user_prefix
from evoprompt.types import Candidate, Setting


class Words:
    """A tokenizer: a token a word, one more a message, five a tool."""

    all_special_tokens: Sequence[str] = ("<end>", "<search>")

    def __call__(self, text: str, *, add_special_tokens: bool) -> Mapping[str, Any]:
        return {"input_ids": text.split()}

    def apply_chat_template(
        self, conversation: Sequence[Any], **settings: Any
    ) -> Mapping[str, Any]:
        assert settings["tokenize"]
        assert settings["add_generation_prompt"]
        overhead = 5 * len(settings.get("tools") or ()) + settings.get("thinking", 0)
        counts = [sum(1 + len(m["content"].split()) for m in messages) for messages in conversation]
        return {"input_ids": [[0] * (count + overhead) for count in counts]}

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        return ""


SHORT = [{"role": "user", "content": "why"}]
LONG = [{"role": "user", "content": "why on earth is that"}]
BRIEF = Candidate("c3", {"instruction": "be brief"})


def writer(limit: int = 9, **settings: Any) -> PromptWriter:
    return PromptWriter(Words(), limit, settings.pop("render", system_message), **settings)


def test_lengths_include_tools_and_the_arguments_of_the_template() -> None:
    plain = writer()
    prompt = plain.write(SHORT, BRIEF)
    assert plain.lengths([prompt]) == [5]
    assert writer(tools=[{}], template={"thinking": 2}).lengths([prompt]) == [12]
    assert plain.lengths([]) == []


def test_a_prompt_over_the_limit_is_refused_with_the_remedy() -> None:
    prompts = [writer().write(question, BRIEF) for question in (SHORT, LONG)]
    assert writer().refusals(prompts, [BRIEF] * 2) == ["", ""]
    (first, second) = writer(limit=8).refusals(prompts, [BRIEF] * 2)
    assert first == ""
    assert "candidate c3 makes a prompt of 9 tokens" in second
    assert "data.max_prompt_length 8" in second
    with pytest.raises(InputError, match="veRL cuts the instruction off"):
        writer(limit=8).require_room(prompts, [BRIEF] * 2)


def test_the_longest_question_decides_whether_a_seed_fits() -> None:
    writer(limit=9).require_room_for(["be brief"], [SHORT, LONG])
    with pytest.raises(InputError, match="'be brief' makes a prompt of 9 tokens"):
        writer(limit=8).require_room_for(["be brief"], [SHORT, LONG])


def test_a_long_seed_is_shortened_in_the_message() -> None:
    with pytest.raises(InputError) as error:
        writer().require_room_for(["word " * 50], [SHORT])
    assert len(str(error.value)) < 300


def test_proposals_may_have_what_the_longest_question_leaves() -> None:
    limits = writer(limit=20).limits([SHORT, LONG], ["use <search> here"])
    assert limits.max_tokens == 20 - (1 + 0 + 1 + 5)
    assert limits.count_tokens("three little words") == 3
    assert limits.control_tokens == ["<end>"]


def test_placement_is_the_callers() -> None:
    found = writer(render=user_prefix).write(SHORT, BRIEF)
    assert found == [{"role": "user", "content": "be brief\n\nwhy"}]


def test_only_the_longest_questions_are_measured() -> None:
    questions = [[{"role": "user", "content": "x" * length}] for length in range(100)]
    assert len(longest(questions)) == 64
    assert longest(questions)[0] is questions[99]


def test_a_question_too_long_for_its_instruction_is_asked_under_the_longest_that_fits() -> None:
    short, middle, long = (Candidate(f"c{n}", {"i": "x " * n}) for n in (1, 6, 30))
    writer = PromptWriter(Words(), 40, system_message)
    questions = [[{"role": "user", "content": "q " * count}] for count in (5, 25, 34)]
    found = writer.fitting(questions, [long] * 3, [short, long, middle])
    assert [one and one.candidate for one in found] == [long, middle, short]


def test_what_fits_under_none_is_left_out_but_never_everything() -> None:
    seed = Candidate("c0", {"i": "x " * 5})
    writer = PromptWriter(Words(), 10, system_message)
    questions = [[{"role": "user", "content": "q " * count}] for count in (3, 50, 60)]
    assert [bool(one) for one in writer.fitting(questions, [seed] * 3, [seed])] == [
        True,
        False,
        False,
    ]
    none = writer.fitting(questions[1:], [seed] * 2, [seed])
    assert none[0] is not None
    assert (none[0].prompt, none[0].candidate, none[1]) == (questions[1], None, None)


def test_proposals_are_limited_by_the_longest_question_that_has_room() -> None:
    writer = PromptWriter(Words(), 100, system_message)
    questions = [[{"role": "user", "content": "q " * count}] for count in [*[200] * 70, 60, 30]]
    taken, refused = writer.longest_with_room(questions, ["x " * 20])
    assert (taken, refused) == (62, 70)
    assert writer.limits(questions[-1:], ["x " * 20], taken).max_tokens == 38


def test_the_writer_of_instructions_is_told_of_prompt_tools_and_score() -> None:
    tool: Mapping[str, Any] = {"function": {"name": "look"}}
    found = writer(tools=[tool]).setting([SHORT, LONG], "`reward`: 1 for why.")
    assert found == Setting(
        "system: [here stands the instruction]\n\nuser: why", [tool], "`reward`: 1 for why."
    )
    assert writer().setting([], "").prompt == ""
