"""Whether an export asks as the training did, token by token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoProcessor, AutoTokenizer

from evoprompt.errors import InputError
from evoprompt.experiments.export.recipe import Recipe
from evoprompt.experiments.export.template import template_of

PROBES = ("What is the capital of France?", " {{ two }}\n\nlines, an é and 東京 ")
"""Questions whose tokens are compared."""


def require_same_tokens(tokenizer: Any, recipe: Recipe, where: Path | str) -> None:
    """Nothing, if ``tokenizer`` with the export's template gives the tokens of the training.

    Args:
        tokenizer: of ``transformers``, a processor too.
        recipe: how the policy was asked.
        where: the export, for messages.

    Raises:
        InputError: the tokens differ, or the template cannot place the instruction.
    """
    template = template_of(recipe)
    for place, question in enumerate(PROBES):
        try:
            told = recipe.probes[place] if recipe.probes else None
            wanted = told or trained_tokens(tokenizer, recipe, question)
            found = _ids(tokenizer, [{"role": "user", "content": question}], template)
        except Exception as error:  # jinja's own, or whatever a template raises
            raise InputError(
                f"{where}: the model's chat template cannot hold the instruction by placement "
                f"{recipe.placement!r} ({type(error).__name__}: {error}); required: a template "
                "that takes a system message, or placement 'user'"
            ) from error
        if wanted != found:
            raise InputError(
                f"{where}: the exported chat template asks {question!r} by {len(found)} tokens "
                f"that are not the {len(wanted)} of the training; required: the same; see whether "
                f"{type(tokenizer).__name__} is the tokenizer of the training (AutoTokenizer goes "
                "by the model's type), else build the prompts yourself, from instruction.txt"
            )


def require_as_trained(folder: Path, recipe: Recipe) -> None:
    """Nothing, if what ``transformers`` loads from ``folder`` asks as the training did.

    Raises:
        InputError: it does not.
    """
    loads = AutoProcessor if (folder / "processor_config.json").exists() else AutoTokenizer
    require_same_tokens(loads.from_pretrained(folder), recipe, folder)


def trained_tokens(tokenizer: Any, recipe: Recipe, question: str) -> list[int]:
    """The tokens of ``question`` as the training asked it."""
    prompt = recipe.prompt(question)
    if isinstance(prompt, str):
        found: list[int] = list(_flat(tokenizer(text=[prompt])["input_ids"]))
        return found
    assert recipe.template is not None
    return _ids(
        tokenizer,
        [dict(message) for message in prompt],
        recipe.template,
        tools=recipe.schemas or None,
        **recipe.settings,
    )


def _ids(tokenizer: Any, messages: list[dict[str, Any]], template: str, **given: Any) -> list[int]:
    if hasattr(tokenizer, "tokenizer"):  # a processor takes contents in parts
        messages = [
            {**one, "content": [{"type": "text", "text": one["content"]}]}
            if isinstance(one["content"], str)
            else one
            for one in messages
        ]
    encoded = tokenizer.apply_chat_template(
        messages,
        chat_template=template,
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        **given,
    )
    return list(_flat(encoded["input_ids"]))


def _flat(ids: Any) -> list[int]:
    return list(ids[0]) if len(ids) and isinstance(ids[0], list) else list(ids)
