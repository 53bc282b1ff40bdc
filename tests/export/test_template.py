from __future__ import annotations

from typing import Any

import pytest
from bytewise import bytewise
from hypothesis import given, settings
from hypothesis import strategies as st

from evoprompt.agents.recipe import PROBES, Recipe, common_system
from evoprompt.experiments.export.template import (
    require_same_tokens,
    template_of,
)
from evoprompt.hosting.prompts import Placement
from evoprompt.support.errors import InputError

DEFAULTS_SYSTEM = """\
  {%- if tools %}{{ '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}{{ messages[0]['content'] }}
    {%- else %}{{ 'You are Tiny.' }}{%- endif %}
    {%- for tool in tools %}{{ '\\n' + (tool | tojson) }}{%- endfor %}{{ '<|im_end|>\\n' }}
  {%- elif messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
  {%- else %}{{ '<|im_start|>system\\nYou are Tiny.<|im_end|>\\n' }}{%- endif %}
  {%- for message in messages %}{%- if message.role != 'system' or not loop.first %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
  {%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}{{ '<think></think>' }}{% endif %}
{%- endif %}"""
NO_SYSTEM = """\
{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}\
{% endif %}{% for message in messages %}{{ '<turn>' + message['role'] + '\n' \
+ (message['content'] | trim) + '</turn>\n' }}{% endfor %}\
{% if add_generation_prompt %}{{ '<turn>model\n' }}{% endif %}"""
FIRST_LINE_IS_BLANK = "\n  {% for m in messages %}\n{{ m.role }}: {{ m.content }}\n  {% endfor %}\n"
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "search",
            "description": "Searches.",
            "parameters": {"type": "object", "properties": {"q": {"type": "string", "x": None}}},
        },
    }
]


def plain() -> Any:
    return bytewise()


def recipe(placement: Placement = "append", **given: Any) -> Recipe:
    made: dict[str, Any] = {
        "candidate": "c3",
        "components": {
            "instruction": "Say \"why\" {{ not }} {% twice %}.\n\n'Bon\u2028jour' 🙂\t\\n"
        },
        "placement": placement,
        "template": DEFAULTS_SYSTEM,
    }
    return Recipe.model_validate(made | given)


def asked(given: Recipe, question: str) -> list[int]:
    """The tokens of a question as the training asked it."""
    prompt, tokenizer = given.prompt(question), plain()
    if isinstance(prompt, str):
        return list(tokenizer(text=[prompt])["input_ids"][0])
    found = tokenizer.apply_chat_template(
        [dict(one) for one in prompt],
        chat_template=given.template,
        add_generation_prompt=True,
        return_dict=True,
        tools=given.schemas or None,
        **given.settings,
    )
    return list(found["input_ids"])


def require_same(given: Recipe, where: str = "x") -> None:
    probes = [asked(given, question) for question in PROBES]
    require_same_tokens(plain(), given.model_copy(update={"probes": probes}), where)


@pytest.mark.parametrize("tools", [[], TOOLS], ids=["bare", "tools"])
@pytest.mark.parametrize("role", ["system", "developer"])
@pytest.mark.parametrize("system", ["", "Be kind."])
@pytest.mark.parametrize("template", [DEFAULTS_SYSTEM, FIRST_LINE_IS_BLANK])
@pytest.mark.parametrize("placement", ["append", "replace", "user"])
def test_a_question_alone_gives_the_tokens_of_the_training(
    placement: Placement, template: str, system: str, role: str, tools: list[dict[str, Any]]
) -> None:
    require_same(
        recipe(
            placement,
            template=template,
            system="" if placement == "replace" else system,
            system_role=role if system else "system",
            tools=tools,
            settings={"enable_thinking": False},
        ),
    )


@settings(deadline=None, max_examples=60)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_instruction_survives_jinja(text: str) -> None:
    written = recipe(components={"instruction": text}, template="{{ messages[0]['content'] }}")
    question = [{"role": "user", "content": "?"}]
    shown = plain().apply_chat_template(
        question, chat_template=template_of(written), tokenize=False
    )
    assert shown == text


def test_a_template_without_system_role_takes_the_instruction_in_the_question_only() -> None:
    require_same(recipe("user", template=NO_SYSTEM))
    given = recipe(template=NO_SYSTEM, probes=[[1], [2]])
    with pytest.raises(InputError, match=r"out: .*'append' \(TemplateError: no system role\)"):
        require_same_tokens(bytewise(), given, "out")


def test_the_callers_own_system_message_and_tools_win_over_those_of_the_training() -> None:
    written = recipe(components={"instruction": "Think."}, system="Be kind.", tools=TOOLS)
    own = [{"role": "system", "content": "Be quick."}, {"role": "user", "content": "Why?"}]
    given = [{**TOOLS[0], "function": {**TOOLS[0]["function"], "name": "look"}}]
    shown = plain().apply_chat_template(
        own, tools=given, chat_template=template_of(written), tokenize=False
    )
    assert "Be quick.\n\nThink." in shown
    assert "Be kind." not in shown
    assert '"look"' in shown
    assert '"search"' not in shown


def test_descriptions_of_tools_are_those_of_the_candidate() -> None:
    texts = {"instruction": "Think.", "tool:search": "Finds passages."}
    written = recipe(components=texts, tools=TOOLS)
    require_same(written)
    shown = str(plain().decode(asked(written, "Why?")))
    assert "Finds passages." in shown
    assert "Searches." not in shown


def test_a_model_without_chat_template_completes_plain_text() -> None:
    tokenizer = plain()
    written = recipe(template=None)
    require_same(written)
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    with pytest.raises(Exception, match="completes plain text; required: one user message"):
        tokenizer.apply_chat_template(turns, chat_template=template_of(written))


@pytest.mark.parametrize("role", ["system", "developer"])
def test_only_a_system_message_that_all_questions_share_is_the_trainings(role: str) -> None:
    kind, none = {"role": role, "content": "Be kind."}, {"role": "user", "content": "Why?"}
    assert common_system([[kind, none]] * 2, "append") == (role, "Be kind.")
    assert common_system([[kind, none], [none]], "append") == ("system", "")
    assert common_system([[kind, none]], "replace") == (role, "")
    assert common_system(["plain"], "append") == ("system", "")
