"""Puts instructions into prompts, and refuses those that the model could not read whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from evoprompt.agents.prompt_lengths import Schemas, chat_lengths, forbidden, require_none
from evoprompt.agents.tokenizer import template_refusal
from evoprompt.engine import Engine
from evoprompt.errors import InputError
from evoprompt.prompts import Message, Prompt, Render, marked_prompt
from evoprompt.rows import question_from_row, row_of
from evoprompt.text import words_of
from evoprompt.types import INSTRUCTION, Candidate, Question, Setting, TextLimits
from evoprompt_trl.host import HostTrainer, Row, has_environments, tokenizer_of
from evoprompt_trl.tools import schemas_of

_UNASKED: Prompt = [{"role": "user", "content": ""}]
"""A prompt that asks nothing; TRL starts from it where an environment writes the prompt."""


class PromptWriter:
    """Renders the prompts of one trainer and knows how long they may be.

    Args:
        trainer: whose tokenizer and model decide what fits.
        render: places the instruction in a prompt.
    """

    def __init__(self, trainer: HostTrainer, render: Render) -> None:
        self._trainer = trainer
        self._render = render
        self._owned = has_environments(trainer)

    def write(self, row: Row, candidate: Candidate) -> Row:
        """A shallow copy of ``row`` under ``candidate``.

        No column is added, but for the prompt of a row that leaves it to an environment.
        """
        return {**row, "prompt": self._render(self._asked(row), candidate)}

    def question(self, row: Row, place: int) -> Question:
        """The question in ``row``, the ``place``-th of its batch.

        Where an environment asks, rows may all be alike; each place is then a question of its own.
        """
        if not self._owned:
            return question_from_row(row, unasked="(no text)")
        question = question_from_row(row, unasked="(asked by the environment)")
        return question if "id" in row else replace(question, id=f"{question.id}-{place}")

    def refusals(self, pairs: Sequence[tuple[Question, Candidate]]) -> list[str]:
        """For each question under its candidate why it is too long; empty where it is not."""
        limit = self._limit()
        if limit is None:
            return [""] * len(pairs)
        reserved = self._trainer.max_completion_length
        lengths = self._lengths([self.write(row_of(q), c)["prompt"] for q, c in pairs])
        return [
            f"candidate {candidate.id} makes a prompt of {length} tokens for question "
            f"{question.id!r}; with max_completion_length {reserved} the model's {limit} "
            f"positions allow {limit - reserved}; shorten the instruction, drop such long "
            "questions, lower max_completion_length or use a model with more positions"
            if length > limit - reserved
            else ""
            for length, (question, candidate) in zip(lengths, pairs, strict=True)
        ]

    def require_room(self, pairs: Sequence[tuple[Question, Candidate]]) -> None:
        """Makes sure that every question fits under its candidate.

        Raises:
            InputError: one does not.
        """
        require_none(self.refusals(pairs))

    def limits(self, engine: Engine) -> TextLimits:
        """What screening should ask of proposals, so that hardly one is refused here.

        The room is what the chat template leaves of it. Special tokens are forbidden, but for
        those that an instruction holds already, such as protocol tags.
        """
        tokenizer, limit = tokenizer_of(self._trainer), self._limit()
        living = [candidate.text for candidate in engine.population.alive]
        room = None
        if limit is not None:
            room = limit - self._trainer.max_completion_length - self._overhead()
        return TextLimits(
            count_tokens=lru_cache(4096)(lambda text: len(tokenizer(text=[text])["input_ids"][0])),
            max_prompt_tokens=room,
            control_tokens=forbidden(tokenizer.all_special_tokens, living),
        )

    def setting(self, engine: Engine) -> Setting:
        """What the engine's proposer is told of the trainer; of the score what ``engine`` knows."""
        row = self._first_row()
        asks = self._owned or "prompt" in row
        prompt = marked_prompt(self._asked(row), self._render) if asks else ""
        return Setting(
            prompt, schemas_of(self._trainer), engine.setting.reward or rewards_of(self._trainer)
        )

    def _asked(self, row: Row) -> Prompt:
        asked: Prompt = row.get("prompt", _UNASKED) if self._owned else row["prompt"]
        return asked

    def _first_row(self) -> Row:
        return next(iter(getattr(self._trainer, "train_dataset", None) or ()), {})

    def _limit(self) -> int | None:
        """Positions for prompt and completion together; None if nothing bounds them."""
        config = self._trainer.model.config.get_text_config()
        limits = (
            getattr(config, "max_position_embeddings", None),
            getattr(self._trainer.args, "vllm_max_model_length", None),
        )
        return min((limit for limit in limits if limit), default=None)

    def _overhead(self) -> int:
        """Tokens of a prompt in which neither instruction nor question says anything."""
        first: Row = {} if self._owned else self._first_row()
        empty: Prompt = "" if isinstance(first.get("prompt"), str) else _UNASKED
        return self._lengths([self._render(empty, Candidate("", {INSTRUCTION: ""}))])[0]

    def _lengths(self, prompts: Sequence[Prompt]) -> list[int]:
        plain = [prompt for prompt in prompts if isinstance(prompt, str)]
        if plain:
            return [len(ids) for ids in self._trainer.processing_class(text=plain)["input_ids"]]
        chats = [prompt for prompt in prompts if not isinstance(prompt, str)]
        return chat_lengths(chats, schemas_of(self._trainer), self._encoded)

    def _encoded(self, chats: list[list[Message]], tools: Schemas) -> Sequence[Sequence[int]]:
        processor = self._trainer.processing_class
        own = getattr(self._trainer, "chat_template", None)
        inner = getattr(processor, "tokenizer", processor)
        if not (own or any(getattr(one, "chat_template", None) for one in (processor, inner))):
            raise InputError(
                f"the prompts are conversations, but the {type(processor).__name__} of the trainer "
                "has no chat template; required: a model that was taught to chat, with its "
                "chat_template.jinja in the folder; or prompts of plain text"
            )
        if hasattr(processor, "tokenizer"):
            chats = [[_in_parts(message) for message in chat] for chat in chats]
        try:
            encoded = processor.apply_chat_template(
                chats,
                tools=list(tools) or None,
                chat_template=own,
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
                **self._trainer.chat_template_kwargs,
            )
        except Exception as error:  # jinja's own, or whatever a template raises
            raise template_refusal([one for chat in chats for one in chat], error) from error
        found: Sequence[Sequence[int]] = encoded["input_ids"]
        return found


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


def _in_parts(message: Message) -> Message:
    """``message`` as processors take it: its content a list of parts."""
    content = message.get("content")
    if not isinstance(content, str):
        return message
    return {**message, "content": [{"type": "text", "text": content}]}
