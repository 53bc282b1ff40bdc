"""How a TRL trainer asks: its prompts, and how long they may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from evoprompt.agents.writer import PromptWriter
from evoprompt.hosting.prompts import Prompt, Render
from evoprompt.hosting.rows import question_from_row, row_of, texts_of
from evoprompt.support.text import words_of
from evoprompt.types import Candidate, Question
from evoprompt_trl.host import HostTrainer, Row, has_environments
from evoprompt_trl.tools import schemas_of

_UNASKED: Prompt = [{"role": "user", "content": ""}]
"""A prompt that asks nothing; TRL starts from it where an environment writes the prompt."""

_LOOKED_AT = 64  # rows of the dataset


class TrlPrompts(PromptWriter):
    """Renders the prompts of one trainer and knows how long they may be.

    Args:
        trainer: whose tokenizer and model decide what fits.
        render: places the instruction in a prompt.
    """

    def __init__(self, trainer: HostTrainer, render: Render) -> None:
        self._trainer = trainer
        self._owned = has_environments(trainer)
        config = trainer.model.config.get_text_config()
        positions = (
            getattr(config, "max_position_embeddings", None),
            getattr(trainer.args, "vllm_max_model_length", None),
        )
        limit, reserved = min(filter(None, positions), default=None), trainer.max_completion_length
        super().__init__(
            trainer.processing_class,
            render,
            None if limit is None else limit - reserved,
            f"as max_completion_length {reserved} of the model's {limit} positions are for the "
            "answer; lower max_completion_length or use a model with more positions",
            schemas_of(trainer),
            trainer.chat_template_kwargs or {},
        )

    def place(self, row: Row, candidate: Candidate) -> Row:
        """A shallow copy of ``row`` under ``candidate``.

        No column is added, but for the prompt of a row that leaves it to an environment.
        """
        return {**row, "prompt": self.write(self.prompt_of(row), candidate)}

    def prompt_of(self, row: Row) -> Prompt:
        """The prompt in ``row``; an empty one where it is left to an environment."""
        prompt: Prompt = row.get("prompt", _UNASKED) if self._owned else row["prompt"]
        return prompt

    def question(self, row: Row, place: int) -> Question:
        """The question in ``row``, the ``place``-th of its batch.

        Where an environment asks, rows may all be alike; each place is then a question of its own.
        """
        if not self._owned:
            return question_from_row(row, unasked="(no text)")
        question = question_from_row(row, unasked="(asked by the environment)")
        return question if "id" in row else replace(question, id=f"{question.id}-{place}")

    def asked(self, question: Question) -> Prompt:
        """The prompt of ``question`` without an instruction."""
        return self.prompt_of(row_of(question))

    def questions(self, most: int) -> Sequence[str]:
        """The texts of the first questions, where the dataset says them."""
        rows = getattr(self._trainer, "train_dataset", None)
        return [] if self._owned else texts_of(rows, "prompt", most)

    def samples(self) -> Sequence[Prompt]:
        """The first prompts of the dataset."""
        rows = islice(iter(getattr(self._trainer, "train_dataset", None) or ()), _LOOKED_AT)
        return [self.prompt_of(row) for row in rows if self._owned or "prompt" in row]

    def chat_template(self) -> str | None:
        """The trainer's own, where it has one."""
        template: str | None = getattr(self._trainer, "chat_template", None)
        return template

    def origin(self) -> tuple[str, str]:
        """Names of the trainer and of the model."""
        model = str(getattr(self._trainer.model.config, "_name_or_path", ""))
        return type(self._trainer).__name__, model


def rewards_of(trainer: HostTrainer) -> str:
    """The reward functions of ``trainer`` in their own words, with their weights."""
    functions = getattr(trainer, "reward_funcs", ())
    weights = trainer.reward_weights.tolist()
    told = [
        words_of(one) or f"`{name}`"
        for one, name in zip(functions, trainer.reward_func_names, strict=False)
    ]
    if len(told) < 2:
        return "\n".join(told)
    return "\n".join(
        f"{one} (weight {weight:g})" for one, weight in zip(told, weights, strict=False)
    )
