"""Writes into checkpoints how the policy is asked, for the adapters."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evoprompt.agents.recipe import PROBES, Recipe, common_system, placement_of
from evoprompt.engine import Engine
from evoprompt.errors import EvopromptWarning, InputError
from evoprompt.events import Notice
from evoprompt.experiments.export.template import require_same_tokens, trained_tokens
from evoprompt.prompts import Render
from evoprompt.storage import RECIPE_FILE, write_whole
from evoprompt.text import told


@dataclass(frozen=True, slots=True)
class Asking:
    """How a trainer turns a conversation into tokens.

    Attributes:
        tokenizer: of ``transformers``, or a processor.
        rows: some rows of the dataset, for their system message.
        trainer: name of the trainer.
        base: name or folder of the model.
        template: a chat template instead of the tokenizer's own.
        tools: schemas that every prompt shows.
        settings: further variables of the chat template.
        plain: whether prompts are plain text.
    """

    tokenizer: Any
    rows: Sequence[Mapping[str, Any]]
    trainer: str
    base: str = ""
    template: str | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    plain: bool = False


class Exporter:
    """Writes what a policy and its instruction need to be deployed.

    Args:
        engine: knows the best candidate and the events.
        render: places the instruction in a prompt.
        asking: how the trainer makes tokens; asked when something is written first.
    """

    def __init__(self, engine: Engine, render: Render, asking: Callable[[], Asking]) -> None:
        self._engine = engine
        self._render = render
        self._asking = asking
        self._asked: Asking | None = None
        self._sound = False
        self._given_up = False

    def recipe(self, engine: Engine) -> Recipe | None:
        """How the policy is asked under the best candidate; None if no chat template can do it.

        The first time it is made sure that the exported template asks by the same tokens.

        Raises:
            InputError: the chat template cannot place the instruction by itself.
        """
        placement = placement_of(self._render)
        if placement is None:
            return None
        asked = self._asked = self._asked or self._asking()
        best = self._engine.best
        recipe = Recipe(
            candidate=best.id,
            components=dict(best.components),
            statement=self._engine.best_statement(),
            placement=placement,
            template=None if asked.plain else _template(asked),
            system=common_system(asked.rows, placement),
            tools=[dict(schema) for schema in asked.tools],
            settings=dict(asked.settings),
            around=_around(asked.tokenizer) if asked.plain else ("", ""),
            base=asked.base,
            step=self._engine.step,
            rollouts=self._engine.rollouts,
            trainer=asked.trainer,
        )
        probes = [trained_tokens(asked.tokenizer, recipe, question) for question in PROBES]
        recipe = recipe.model_copy(update={"probes": probes})
        if not self._sound:  # templates and tokenizers stay what they are
            require_same_tokens(asked.tokenizer, recipe, "the export")
            self._sound = True
        return recipe

    def carry(self, folder: Path, saved: Path) -> None:
        """Writes the recipe into a checkpoint, the folder above ``folder``; it costs no save."""
        if self._given_up or placement_of(self._render) is None:
            return
        try:
            recipe = self.recipe(self._engine)
            assert recipe is not None
            write_whole(folder.parent / RECIPE_FILE, recipe.model_dump_json(indent=2))
        except Exception as error:  # also what a foreign template or tokenizer raises
            self._given_up = True
            message = f"checkpoints are saved without {RECIPE_FILE}, to export: {told(error)}"
            self._engine.log.append(Notice(self._engine.step, message))
            warnings.warn(message, EvopromptWarning, stacklevel=2)


def _template(asked: Asking) -> str:
    inner = getattr(asked.tokenizer, "tokenizer", asked.tokenizer)
    found = asked.template or getattr(asked.tokenizer, "chat_template", None) or inner.chat_template
    if isinstance(found, Mapping):  # several by name
        found = found.get("tool_use" if asked.tools and "tool_use" in found else "default")
    if not found:
        raise InputError(
            "the tokenizer has no chat template, but the prompts are conversations; required: a "
            "model that was taught to chat"
        )
    return str(found)


def _around(tokenizer: Any) -> tuple[str, str]:
    """The special tokens that ``tokenizer`` puts around plain text."""
    bare = tokenizer(text=["a"], add_special_tokens=False)["input_ids"][0]
    whole = tokenizer(text=["a"])["input_ids"][0]
    for start in range(len(whole) - len(bare) + 1):
        if whole[start : start + len(bare)] == bare:
            before, after = whole[:start], whole[start + len(bare) :]
            return tokenizer.decode(before), tokenizer.decode(after)
    return "", ""
