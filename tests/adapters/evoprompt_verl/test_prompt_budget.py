"""A model, a tokenizer or a setting that leaves no room for an instruction is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from cpu_support.world import rows, write_rows
from evoprompt_verl.prompt_budget import check_room
from omegaconf import DictConfig

from evoprompt.errors import InputError
from evoprompt.prompts import Render, system_message, user_prefix

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
        ("data.train_files", "{} cannot be read"),
        (f"{ROLLOUT}.multi_turn.function_tool_path", "tools of the agent loops cannot be loaded"),
    ],
)
def test_what_cannot_be_loaded_is_named(
    changed: Changed, tmp_path: Path, key: str, said: str
) -> None:
    broken = tmp_path / "broken.parquet"
    broken.write_text("no parquet")
    assert said.format(broken) in refusal(changed({key: str(broken)}))
