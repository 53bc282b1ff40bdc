"""Chat template that places the instruction by itself, as the training did.

The model's own template stays as it is; the text before it changes the ``messages`` and ``tools``
of the request. So every server that renders Jinja builds the prompts of the training.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from evoprompt.agents.recipe import PROBES, Recipe
from evoprompt.support.errors import InputError

_SYSTEM = """\
{%- if messages and messages[0]['role'] in ['system', 'developer'] -%}
{%- set evoprompt_role = messages[0]['role'] -%}
{%- set evoprompt_own = messages[0]['content'] -%}
{%- set evoprompt_rest = messages[1:] -%}
{%- else -%}
{%- set evoprompt_own = evoprompt_system -%}
{%- set evoprompt_rest = messages -%}
{%- endif -%}
"""
_APPEND = (
    _SYSTEM
    + """\
{%- if evoprompt_own is none -%}
{%- set evoprompt_own = evoprompt_instruction -%}
{%- elif evoprompt_own is string -%}
{%- set evoprompt_own = evoprompt_own + '\\n\\n' + evoprompt_instruction -%}
{%- else -%}
{%- set evoprompt_own = evoprompt_own + [
{'type': 'text', 'text': '\\n\\n' + evoprompt_instruction}] -%}
{%- endif -%}
{%- set messages = [{'role': evoprompt_role, 'content': evoprompt_own}] + evoprompt_rest -%}
"""
)
_REPLACE = (
    _SYSTEM
    + """\
{%- set evoprompt_own = {'role': evoprompt_role, 'content': evoprompt_instruction} -%}
{%- set messages = [evoprompt_own] + evoprompt_rest -%}
"""
)
_USER = """\
{%- if evoprompt_system
and not (messages and messages[0]['role'] in ['system', 'developer']) -%}
{%- set messages = [{'role': evoprompt_role, 'content': evoprompt_system}] + messages -%}
{%- endif -%}
{%- set evoprompt = namespace(messages=[], placed=false) -%}
{%- for message in messages -%}
{%- if evoprompt.placed or message['role'] != 'user' -%}
{%- set evoprompt.messages = evoprompt.messages + [message] -%}
{%- else -%}
{%- set evoprompt.placed = true -%}
{%- if message['content'] is string -%}
{%- set evoprompt_text = evoprompt_instruction + '\\n\\n' + message['content'] -%}
{%- else -%}
{%- set evoprompt_text = [
{'type': 'text', 'text': evoprompt_instruction + '\\n\\n'}] + message['content'] -%}
{%- endif -%}
{%- set evoprompt.messages = evoprompt.messages + [{'role': 'user', 'content': evoprompt_text}] -%}
{%- endif -%}
{%- endfor -%}
{%- if not evoprompt.placed -%}
{%- set evoprompt.messages = [
{'role': 'user', 'content': evoprompt_instruction}] + evoprompt.messages -%}
{%- endif -%}
{%- set messages = evoprompt.messages -%}
"""
_PLACES: Mapping[str, str] = {"append": _APPEND, "replace": _REPLACE, "user": _USER}
_PLAIN = """\
{%- if messages | length != 1 or messages[0]['role'] != 'user'
or messages[0]['content'] is not string -%}
{{ raise_exception('This model completes plain text; required: one user message, of text.') }}
{%- endif -%}
{{ evoprompt_before + evoprompt_instruction + '\\n\\n'
+ messages[0]['content'] + evoprompt_after }}"""


def template_of(recipe: Recipe) -> str:
    """Return the chat template of an export, which follows ``recipe`` by itself."""
    lines = [_set("evoprompt_instruction", recipe.best.instruction)]
    if recipe.template is None:
        before, after = recipe.around
        lines += [_set("evoprompt_before", before), _set("evoprompt_after", after)]
        return "".join(lines) + _PLAIN
    lines.append(_set("evoprompt_role", recipe.system_role))
    lines.append(f"{{%- set evoprompt_system = {_literal(recipe.system or None)} -%}}\n")
    if recipe.tools:
        schemas: list[JsonValue] = list(recipe.schemas)
        lines.append(f"{{%- set tools = tools if tools else {_literal(schemas)} -%}}\n")
    for name, value in recipe.settings.items():
        expression = f"{name} if {name} is defined else {_literal(value)}"
        lines.append(f"{{%- set {name} = {expression} -%}}\n")
    # Blocks at the very beginning lose the white space around them; after other text they do not.
    model_template = re.sub(r"\A[ \t]+(?=\{[%#])", "", recipe.template)
    return "".join(lines) + _PLACES[recipe.placement] + "{{- '' }}" + model_template


def _set(name: str, text: str) -> str:
    return f"{{%- set {name} = {_literal(text)} -%}}\n"


def _literal(value: JsonValue) -> str:
    """Return ``value`` for Jinja; characters beyond 16 bits would be damaged by JSON's escapes."""
    match value:
        case None:
            return "none"
        case list():
            return f"[{', '.join(map(_literal, value))}]"
        case dict():
            pairs = (f"{_literal(name)}: {_literal(item)}" for name, item in value.items())
            return f"{{{', '.join(pairs)}}}"
    return json.dumps(value, ensure_ascii=False)


def require_same_tokens(tokenizer: Any, recipe: Recipe, path: Path | str) -> None:
    """Check that ``tokenizer`` with the export's template gives the tokens of the training.

    Args:
        tokenizer: of ``transformers``, a processor too.
        recipe: of the policy's prompts.
        path: of the export, for messages.

    Raises:
        InputError: the tokens differ, or the template cannot place the instruction.
    """
    template = template_of(recipe)
    for question, expected_ids in zip(PROBES, recipe.probes, strict=True):
        try:
            ids = _ids(tokenizer, question, template)
        except Exception as error:  # jinja's own, or any error of a template
            raise InputError(
                f"{path}: the model's chat template cannot hold the instruction by placement "
                f"{recipe.placement!r} ({type(error).__name__}: {error}); required: a template "
                "that takes a system message, or placement 'user'"
            ) from error
        if expected_ids != ids:
            raise InputError(
                f"{path}: the exported chat template asks {question!r} by {len(ids)} tokens "
                f"that are not the {len(expected_ids)} of the training; required: the same; see "
                f"whether {type(tokenizer).__name__} is the tokenizer of the training "
                "(AutoTokenizer goes by the model's type), else build the prompts yourself, from "
                "instruction.txt"
            )


def _ids(tokenizer: Any, question: str, template: str) -> list[int]:
    is_processor = hasattr(tokenizer, "tokenizer")  # which takes contents in parts
    content: Any = [{"type": "text", "text": question}] if is_processor else question
    encoded = tokenizer.apply_chat_template(
        [{"role": "user", "content": content}],
        chat_template=template,
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
    )
    ids = encoded["input_ids"]
    return list(ids[0]) if len(ids) and isinstance(ids[0], list) else list(ids)
