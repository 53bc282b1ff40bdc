"""Makes the exports of one training, for the adapters: at every save, and when asked for."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evoprompt.engine import Engine
from evoprompt.errors import EvopromptWarning, InputError
from evoprompt.experiments.export.check import (
    PROBES,
    require_as_trained,
    require_same_tokens,
    trained_tokens,
)
from evoprompt.experiments.export.folder import require_new, write_artefact
from evoprompt.experiments.export.recipe import Recipe, common_system, placement_of
from evoprompt.prompts import Render
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

    def recipe(self) -> Recipe:
        """How the policy is asked under the best candidate of this moment.

        The first time it is made sure that the exported template asks by the same tokens.

        Raises:
            InputError: the instruction stands where a function of somebody's own puts it, or the
                chat template cannot place it by itself.
        """
        placement = placement_of(self._render)
        if placement is None:
            raise InputError(
                "the instruction is placed by a render function of your own, which no chat "
                "template can repeat; required: one of evoprompt.prompts; take the instruction "
                "from engine.best and build the prompts yourself"
            )
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
        """Writes the export of a save into ``folder``; large files are those in ``saved``.

        What goes wrong costs no checkpoint: it is warned of, once. Nothing is written where a
        function of somebody's own places the instruction, which :meth:`export` refuses.
        """
        if self._given_up or placement_of(self._render) is None:
            return
        try:
            write_artefact(folder, saved, self.recipe(), self._engine.log)
        except Exception as error:  # also what a foreign template or tokenizer raises
            self._given_up = True
            shutil.rmtree(folder, ignore_errors=True)
            warnings.warn(
                f"checkpoints are saved without an export to deploy: {told(error)}",
                EvopromptWarning,
                stacklevel=2,
            )

    def export(self, folder: Path, save: Callable[[Path], Path]) -> None:
        """Writes an export that stands alone.

        Args:
            folder: to write; new or empty.
            save: saves weights and tokenizer under a folder, and returns where they are.

        Raises:
            InputError: ``folder`` holds something, or there is nothing that can be exported.
        """
        require_new(folder)
        recipe = self.recipe()
        scratch = folder.with_name(f".{folder.name}.partial")
        try:
            write_artefact(folder, save(scratch), recipe, self._engine.log)
            require_as_trained(folder, recipe)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


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
