"""Descriptions of the trainer's own ``tools=``, shown to the policy as each candidate writes them.

TRL renders all prompts of a batch with the same tools. So what it tokenizes them by is wrapped:
prompts are tokenized in runs of one candidate, with the schemas that describe the tools as it does.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import torch
from transformers.utils.chat_template_utils import get_json_schema

from evoprompt.agents import described
from evoprompt.hosting.prompts import without_tool_descriptions
from evoprompt.support.errors import AttachError, InputError
from evoprompt.types import Candidate
from evoprompt_trl.host import SHOWN_TOOLS, TOKENIZE, TrlTrainer, has_environments

Tokenized = tuple[list[list[int]], list[Any] | None, dict[str, Any]]
"""What TRL makes of prompts: token ids, images, and further inputs of models that take images."""


def schemas_of(trainer: TrlTrainer) -> list[Mapping[str, Any]]:
    """Return the schemas of a trainer's tools, or of those of its ``rollout_func``."""
    tools = getattr(trainer, "tools", None) or getattr(trainer, SHOWN_TOOLS, None) or ()
    return [tool if isinstance(tool, Mapping) else get_json_schema(tool) for tool in tools]


class OwnTools:
    """Shows the policy the tools of one trainer as candidates describe them.

    Args:
        trainer: which was given ``tools``.

    Raises:
        AttachError: this TRL or trainer has no place for it.
    """

    def __init__(self, trainer: TrlTrainer) -> None:
        method = getattr(type(trainer), TOKENIZE, None)
        parameters = tuple(inspect.signature(method).parameters)[1:] if callable(method) else ()
        if parameters[:1] != ("prompts",) or has_environments(trainer):
            obstacle = "tools of environments" if has_environments(trainer) else f"no {TOKENIZE}"
            raise AttachError(
                f"descriptions of tools are to evolve, but {type(trainer).__name__} has "
                f"{obstacle}; required: a GRPOTrainer of TRL 1.11 or newer with tools= alone; "
                "use that, or seeds that are instructions alone"
            )
        self._trainer: Any = trainer
        self._schemas = schemas_of(trainer)
        self._waiting: list[Mapping[str, str]] | None = None

    def require_known(self, candidates: Iterable[Candidate]) -> None:
        """Check that ``candidates`` describe existing tools.

        Raises:
            AttachError: they describe unknown tools.
        """
        tool_names = [schema["function"]["name"] for schema in self._schemas]
        for candidate in candidates:
            if unknown := [name for name in candidate.tool_descriptions if name not in tool_names]:
                raise AttachError(
                    f"candidate {candidate.id} describes the tools {', '.join(unknown)}; required: "
                    f"those of the trainer, {', '.join(tool_names)}; correct the names of the "
                    "components"
                )

    def convert_prompts(self, prompts: Sequence[Any]) -> list[Any]:
        """Return prompts as TRL takes them; it shows their descriptions when it tokenizes them."""
        split = [without_tool_descriptions(prompt) for prompt in prompts]
        self._waiting = [descriptions for _, descriptions in split]
        return [messages for messages, _ in split]

    def require_shown(self) -> None:
        """Check that the last descriptions have been tokenized.

        Raises:
            InputError: they were not, so that the policy never read them.
        """
        if self._waiting is not None:
            raise InputError(
                f"prompts were not tokenized by {TOKENIZE}, so that the policy read the tools' "
                "first descriptions; required: TRL's own way from prompts to tokens; drop the "
                "rollout_func, or seeds with descriptions of tools"
            )

    def around_tokenize(self, original: Callable[[list[Any]], Tokenized]) -> Any:
        """``original``, with the descriptions of each prompt."""

        def tokenize_prompts(prompts: list[Any]) -> Tokenized:
            waiting, self._waiting = self._waiting, None
            if waiting is None or len(waiting) != len(prompts):
                raise InputError(
                    f"{len(prompts)} prompts are tokenized, and candidates of "
                    f"{len(waiting or ())} were placed; required: the prompts that evoprompt "
                    "writes; check whether a subclass changes them"
                )
            tools, parts = self._trainer.tools, []
            try:
                pairs = zip(waiting, prompts, strict=True)
                for descriptions, run in groupby(pairs, key=itemgetter(0)):
                    self._trainer.tools = described(self._schemas, descriptions)
                    parts.append(original([prompt for _, prompt in run]))
            finally:
                self._trainer.tools = tools
            return _joined(parts)

        return tokenize_prompts


def _joined(parts: Sequence[Tokenized]) -> Tokenized:
    """Return the parts of a batch joined, in TRL's form of a batch."""
    ids = [row for row_ids, _, _ in parts for row in row_ids]
    pictures = [
        image for row_ids, images, _ in parts for image in (images or [None] * len(row_ids))
    ]
    further: dict[str, Any] = {}
    for name in {name for _, _, fields in parts for name in fields}:
        values = [fields[name] for _, _, fields in parts if name in fields]
        further[name] = (
            torch.cat(values)
            if isinstance(values[0], torch.Tensor)
            else [row_value for value in values for row_value in value]
        )
    return ids, pictures if any(picture is not None for picture in pictures) else None, further
