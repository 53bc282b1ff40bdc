"""Prompts of a TRL trainer, with the limit of their length."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, cast

from trl.data_utils import prepare_multimodal_messages

from evoprompt.agents.tokenizer import positions_of
from evoprompt.agents.writer import PromptWriter
from evoprompt.hosting.prompts import Prompt, Render
from evoprompt.hosting.rows import is_safe_to_read, row_of, texts_of, training_question
from evoprompt.support.text import words_of
from evoprompt.types import Candidate, Question
from evoprompt_trl.host import Row, TrlTrainer, has_environments
from evoprompt_trl.tools import schemas_of

_UNASKED: Prompt = [{"role": "user", "content": ""}]
"""A prompt that asks nothing; TRL starts from it where an environment writes the prompt."""

_LOOKED_AT = 64  # rows of the dataset


class TrlPrompts(PromptWriter):
    """Writer of the prompts of one trainer, within its limits.

    Args:
        trainer: the trainer; its tokenizer and model set the limits.
        render: places the instruction in a prompt.

    Attributes:
        rows: the first rows, which are read only once. If reading ahead would change the training
            data, there are none until the first batch.
    """

    def __init__(self, trainer: TrlTrainer, render: Render) -> None:
        self._trainer = trainer
        self._owned = has_environments(trainer)
        dataset = getattr(trainer, "train_dataset", None)
        self.rows: Sequence[Row] = ()
        if is_safe_to_read(dataset):
            self.rows = list(islice(iter(cast("Sequence[Row]", dataset)), _LOOKED_AT))
        # What a user says of the positions wins over what the model says.
        stated = getattr(trainer.args, "vllm_max_model_length", None)
        limit = stated or positions_of(trainer.model.config.get_text_config())
        reserved = trainer.max_completion_length
        super().__init__(
            trainer.processing_class,
            render,
            None if limit is None else limit - reserved,
            f"as max_completion_length {reserved} of the model's {limit} positions are for the "
            "answer; lower max_completion_length or use a model with more positions",
            schemas_of(trainer),
            trainer.chat_template_kwargs or {},
        )

    def rendered(self, row: Row, prompt: Prompt, candidate: Candidate) -> Prompt:
        """Return a prompt as the policy reads it, with the instruction of ``candidate``.

        Args:
            row: row of the dataset, with its own prompt.
            prompt: the prompt before tokenization: that of the row, to which an environment may
                have added its question, and the trainer the images.
            candidate: the candidate with the instruction to place.
        """
        row_prompt = self.prompt_of(row)
        if prompt is row_prompt or self._owned or isinstance(row_prompt, str):
            return self.write(prompt, candidate)
        # The trainer has put the images into the prompt; they belong behind the instruction.
        images = row["images"] if "images" in row else [row.get("image")]
        chat: Any = self.write(row_prompt, candidate)
        return cast(
            Prompt,
            prepare_multimodal_messages(
                [dict(message) for message in chat],
                images=[image for image in images or () if image is not None],
            ),
        )

    def prompt_of(self, row: Row) -> Prompt:
        """Return the prompt in ``row``; empty if an environment writes it."""
        prompt: Prompt = row.get("prompt", _UNASKED) if self._owned else row["prompt"]
        return prompt

    def question(self, row: Row, index: int) -> Question:
        """Return the question in ``row``, the ``index``-th of its batch.

        Where an environment asks, rows may all be alike; each place is then a question of its own.
        """
        return training_question(row, index, "" if self._owned else "(no text)", self._owned)

    def render_question(self, question: Question) -> Prompt:
        """Return the prompt of ``question`` without an instruction."""
        return self.prompt_of(row_of(question))

    def questions(self, limit: int) -> Sequence[str]:
        """Return the texts of the first questions in the dataset."""
        rows = getattr(self._trainer, "train_dataset", None)
        return [] if self._owned else texts_of(rows, "prompt", limit)

    def samples(self) -> Sequence[Prompt]:
        """Return the first prompts of the dataset that have been seen."""
        return [self.prompt_of(row) for row in self.rows if self._owned or "prompt" in row]

    def chat_template(self) -> str | None:
        """Return the chat template of the trainer, if it has one."""
        template: str | None = getattr(self._trainer, "chat_template", None)
        return template

    def origin(self) -> tuple[str, str]:
        """Return the names of the trainer and of the model."""
        model = str(getattr(self._trainer.model.config, "_name_or_path", ""))
        return type(self._trainer).__name__, model


def rewards_of(trainer: TrlTrainer) -> str:
    """Return the descriptions of the reward functions of ``trainer``, with their weights."""
    functions = getattr(trainer, "reward_funcs", ())
    weights = trainer.reward_weights.tolist()
    descriptions = [
        words_of(function) or f"`{name}`"
        for function, name in zip(functions, trainer.reward_func_names, strict=False)
    ]
    if len(descriptions) < 2:
        return "\n".join(descriptions)
    return "\n".join(
        f"{description} (weight {weight:g})"
        for description, weight in zip(descriptions, weights, strict=False)
    )
