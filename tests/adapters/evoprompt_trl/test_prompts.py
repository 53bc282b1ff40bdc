"""Prompts are measured as TRL's rollouts will write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from bytewise import bytewise
from evoprompt_trl.host import SHOWN_TOOLS, TrlTrainer
from evoprompt_trl.prompts import TrlPrompts
from pydantic import JsonValue

from evoprompt.hosting.prompts import ShowsTools, system_message
from evoprompt.support.errors import InputError
from evoprompt.types import INSTRUCTION, Candidate, Question

SCHEMA = {"type": "function", "function": {"name": "look", "description": "Looks up"}}


class Words:
    """A tokenizer: a token a word of messages and of descriptions of tools."""

    chat_template = "words"
    all_special_tokens: Sequence[str] = ("<end>",)

    def apply_chat_template(
        self,
        conversation: Sequence[Any],
        tools: Sequence[Mapping[str, Any]] | None,
        chat_template: str | None,
        **settings: bool,
    ) -> Mapping[str, Any] | str:
        assert settings["add_generation_prompt"]
        if not settings["tokenize"]:
            return " ".join(one["content"] for one in conversation)
        assert all(set(one) == {"role", "content"} for chat in conversation for one in chat)
        shown = " ".join(tool["function"]["description"] for tool in tools or ()).split()
        return {
            "input_ids": [
                [0] * (len(shown) + sum(len(one["content"].split()) for one in chat))
                for chat in conversation
            ]
        }


def writer(
    positions: int | None,
    tokenizer: object = None,
    stated: int | None = None,
    **scaling: object,
) -> TrlPrompts:
    text = SimpleNamespace(max_position_embeddings=positions, **scaling)
    trainer = SimpleNamespace(
        processing_class=tokenizer or Words(),
        model=SimpleNamespace(config=SimpleNamespace(get_text_config=lambda: text)),
        args=SimpleNamespace(vllm_max_model_length=stated),
        max_completion_length=10,
        chat_template_kwargs={},
        **{SHOWN_TOOLS: [SCHEMA]},
    )
    return TrlPrompts(cast(TrlTrainer, trainer), ShowsTools(system_message))


def test_a_render_function_that_returns_no_prompt_is_named() -> None:
    prompts = writer(18)
    question, candidate = asked("Looks up")
    prompts.render = lambda prompt, candidate: cast(Any, None)
    with pytest.raises(InputError, match="returned a NoneType; required: a text or a list"):
        prompts.refusals([(question, candidate)])


def asked(description: str) -> tuple[Question, Candidate]:
    row: dict[str, JsonValue] = {"prompt": [{"role": "user", "content": "why"}]}
    texts = {INSTRUCTION: "be brief", "tool:look": description}
    return Question("q", "why", (), row), Candidate("c1", texts)


def test_descriptions_of_tools_count_as_the_candidate_writes_them() -> None:
    short, long = asked("Looks up"), asked("Looks up whatever the agent wants to know")
    assert writer(18).refusals([short, long, short]) == [
        "",
        "candidate c1 makes a prompt of 11 tokens for question 'q'; required: at most 8, as "
        "max_completion_length 10 of the model's 18 positions are for the answer; lower "
        "max_completion_length or use a model with more positions; shorten the instruction or drop "
        "such long questions",
        "",
    ]
    writer(21).require_room([short, long])
    with pytest.raises(InputError, match="a prompt of 11 tokens"):
        writer(20).require_room([short, long])


@pytest.mark.parametrize("positions", [400, None])
def test_a_template_that_drops_the_system_message_is_told_with_its_remedy(
    positions: int | None,
) -> None:
    users = "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}"
    with pytest.raises(InputError, match=r"leaves the system message out.*user_prefix"):
        writer(positions, bytewise(users)).limits(["be brief"])
    if positions:
        with pytest.raises(InputError, match=r"leaves the system message out.*user_prefix"):
            writer(positions, bytewise(users)).require_room([asked("")])
    both = "{% for m in messages %}{{ m.content }}{% endfor %}"
    found = writer(positions, bytewise(both)).limits(["be brief"])
    assert "<|im_end|>" in found.control_tokens


def test_conversations_for_a_model_without_chat_template_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Words, "chat_template", None)
    with pytest.raises(InputError, match="the Words of the trainer has no chat template; required"):
        writer(100).limits(["Be brief."])


YARN = {"rope_type": "yarn", "factor": 4.0}
LINEAR = {"rope_type": "linear", "factor": 8.0}


@pytest.mark.parametrize(
    ("scaling", "positions"),
    [
        ({"rope_parameters": {**YARN, "original_max_position_embeddings": 100}}, 400),
        ({"rope_parameters": {**YARN, "original_max_position_embeddings": 25}}, 100),
        ({"rope_parameters": YARN}, 400),
        ({"rope_scaling": {"type": "linear", "factor": 2}}, 200),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 3.0}}, 300),
        ({"rope_parameters": {"full_attention": YARN, "sliding_attention": {}}}, 400),
        ({"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, 100),
        ({"rope_parameters": {"rope_type": "longrope", "factor": 32.0}}, 100),
        ({"model_type": "gemma3_text", "rope_scaling": LINEAR}, 100),
        ({"model_type": "gemma3_text", "rope_parameters": {"full_attention": LINEAR}}, 100),
        ({"rope_scaling": None}, 100),
        ({}, 100),
    ],
)
def test_positions_that_a_model_stretches_count(scaling: Any, positions: int) -> None:
    assert writer(100, **scaling).max_tokens == positions - 10


@pytest.mark.parametrize("stated", [50, 400])
def test_the_length_that_a_user_states_wins_over_the_models(stated: int) -> None:
    assert writer(100, stated=stated, rope_scaling={"type": "linear", "factor": 2}).max_tokens == (
        stated - 10
    )
