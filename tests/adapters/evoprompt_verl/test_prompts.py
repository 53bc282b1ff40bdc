"""Prompts are measured with the run's own tokenizer before veRL could cut them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from evoprompt_verl.prompts import VerlPrompts
from omegaconf import OmegaConf

from evoprompt.errors import InputError
from evoprompt.prompts import system_message
from evoprompt.types import Candidate, Question


class Words:
    """A tokenizer: a token a word, one more a message, five a tool."""

    all_special_tokens: Sequence[str] = ("<end>", "<search>")
    chat_template = "of the model"

    def __call__(self, text: list[str], *, add_special_tokens: bool) -> Mapping[str, Any]:
        return {"input_ids": [one.split() for one in text]}

    def apply_chat_template(
        self, conversation: Sequence[Any], **settings: Any
    ) -> Mapping[str, Any] | str:
        assert settings["add_generation_prompt"]
        if not settings["tokenize"]:
            return " ".join(one["content"] for one in conversation)
        overhead = 5 * len(settings.get("tools") or ()) + settings.get("thinking", 0)
        counts = [sum(1 + len(m["content"].split()) for m in messages) for messages in conversation]
        return {"input_ids": [[0] * (count + overhead) for count in counts]}

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        return ""


SHORT = [{"role": "user", "content": "why"}]
LONG = [{"role": "user", "content": "why on earth is that"}]
BRIEF = Candidate("c3", {"instruction": "be brief"})


def writer(
    limit: int = 9, questions: Any = (), tools: Any = (), template: Any = None
) -> VerlPrompts:
    data = {"max_prompt_length": limit, "apply_chat_template_kwargs": template}
    config = OmegaConf.create({"data": data})
    return VerlPrompts(config, Words(), system_message, questions, tools)


def asking(count: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": "q " * count}]


def test_lengths_include_tools_and_the_arguments_of_the_template() -> None:
    prompt = writer().write(SHORT, BRIEF)
    assert writer().lengths([prompt]) == [5]
    assert writer(tools=[{}], template={"thinking": 2}).lengths([prompt]) == [12]
    assert writer().lengths([]) == []


def test_a_prompt_over_the_limit_is_refused_with_the_remedy() -> None:
    pairs = [
        (Question(name, "why", row={"raw_prompt": asked}), BRIEF)  # type: ignore[dict-item]
        for name, asked in (("q0", SHORT), ("q1", LONG))
    ]
    assert writer().refusals(pairs) == ["", ""]
    first, second = writer(limit=8).refusals(pairs)
    assert first == ""
    assert (
        "candidate c3 makes a prompt of 9 tokens for question 'q1'; required: at most 8" in second
    )
    with pytest.raises(InputError, match="veRL cuts the instruction off"):
        writer(limit=8).require_room(pairs)


def test_proposals_may_have_what_the_longest_question_leaves() -> None:
    found = writer(limit=20, questions=[SHORT, LONG])
    limits = found.limits(["use <search> here"], found.longest_question())
    assert limits.max_tokens == 20 - (1 + 0 + 1 + 5)
    assert limits.count_tokens("three little words") == 3
    assert limits.control_tokens == ["<end>"]


def test_what_does_not_fit_is_left_out_but_never_everything() -> None:
    seed = Candidate("c0", {"i": "x " * 5})
    questions = [asking(count) for count in (3, 60, 50)]
    found = writer(10).fitting(questions, [seed] * 3)
    assert [one is not None for one in found] == [True, False, False]
    bare = writer(10).fitting(questions[1:], [seed] * 2)
    assert bare == [None, questions[2]]


def test_proposals_are_limited_by_the_longest_question_that_has_room() -> None:
    questions = [asking(count) for count in [*[200] * 70, 60, 30]]
    assert writer(100).longest_with_room(questions, ["x " * 20]) == (62, 70)
