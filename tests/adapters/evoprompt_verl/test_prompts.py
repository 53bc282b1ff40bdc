"""Prompts are measured with the run's own tokenizer before veRL could cut them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from cpu_support.world import rows, write_rows
from evoprompt_verl.prompt_budget import check_room
from evoprompt_verl.prompts import VerlPrompts
from omegaconf import DictConfig, OmegaConf

from evoprompt.hosting.prompts import Render, system_message, user_prefix
from evoprompt.support.errors import InputError
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

    eos_token_id = None

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return [0] * len(text.split())

    def decode(self, token_ids: list[int], skip_special_tokens: bool) -> str:
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
    found = writer(10).fit_questions(questions, [[seed]] * 3)
    assert [len(prompts) for prompts in found] == [1, 0, 0]
    bare = writer(10).fit_questions(questions[1:], [[seed]] * 2)
    assert bare == [[], [questions[2]]]


def test_a_question_is_left_out_if_one_of_its_candidates_leaves_no_room() -> None:
    short, long = (Candidate(f"c{count}", {"i": "x " * count}) for count in (1, 9))
    found = writer(10).fit_questions([asking(3)] * 3, [[short, short], [short, long], [long, long]])
    assert [len(prompts) for prompts in found] == [2, 0, 0]


def test_proposals_are_limited_by_the_longest_question_that_has_room() -> None:
    questions = [asking(count) for count in [*[200] * 70, 60, 30]]
    assert writer(100).longest_with_room(questions, ["x " * 20]) == (62, 70)


Changed = Callable[[Mapping[str, object]], DictConfig]

SEEDS = ["Name any colour."]
CUTS = "data.max_prompt_length"
MODEL = "actor_rollout_ref.model"
ROLLOUT = "actor_rollout_ref.rollout"
REFUSES_SYSTEM = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}"
    "{% endif %}{{ messages[0].content }}"
)


def refusal(config: DictConfig, render: Render = system_message) -> str:
    with pytest.raises(InputError) as error:
        check_room(config, SEEDS, render)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_longest_training_question_counts(
    changed: Changed, tmp_path: Path, questions: Path
) -> None:
    long = rows(1)
    long[0]["prompt"] = [{"role": "user", "content": "x" * 40}]
    write_rows(tmp_path / "long.parquet", long)
    check_room(changed({CUTS: 40}), SEEDS, system_message)
    files = [str(questions), str(tmp_path / "long.parquet")]
    found = refusal(changed({CUTS: 40, "data.train_files": files}))
    assert "required: at most 40, as data.max_prompt_length says" in found


def test_questions_may_be_handed_in(changed: Changed) -> None:
    config = changed({CUTS: 40, "data.train_files": "/not/yet/written.parquet"})
    check_room(config, SEEDS, system_message)
    with pytest.raises(InputError, match="cuts the instruction off"):
        check_room(config, SEEDS, system_message, [[{"role": "user", "content": "x" * 40}]])


def test_the_positions_of_the_model_bound_a_prompt(changed: Changed) -> None:
    check_room(changed({CUTS: 2047}), SEEDS, system_message)
    found = refusal(changed({CUTS: 2048}))
    assert "data.max_prompt_length is 2048, but the model allows 2048 tokens" in found
    assert "lower data.max_prompt_length" in found
    extended = {CUTS: 2048, f"{MODEL}.override_config": {"max_position_embeddings": 4096}}
    check_room(changed(extended), SEEDS, system_message)


def test_a_template_without_room_for_a_system_message_is_named(changed: Changed) -> None:
    config = changed({f"{MODEL}.custom_chat_template": REFUSES_SYSTEM})
    found = refusal(config)
    assert "System role not supported" in found
    assert "evoprompt.placement=user" in found
    check_room(config, SEEDS, user_prefix)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (f"{MODEL}.path", "configuration of the model {} cannot be loaded"),
        (f"{MODEL}.tokenizer_path", "the tokenizer of {} cannot be loaded"),
        ("data.train_files", "{} cannot be loaded"),
        (f"{ROLLOUT}.multi_turn.function_tool_path", "tools of the agent loops cannot be loaded"),
    ],
)
def test_what_cannot_be_loaded_is_named(
    changed: Changed, tmp_path: Path, key: str, said: str
) -> None:
    broken = tmp_path / "broken.parquet"
    broken.write_text("no parquet")
    assert said.format(broken) in refusal(changed({key: str(broken)}))
