"""Puts instructions into prompts, and refuses those that the model could not read whole."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from evoprompt.engine import Engine
from evoprompt.errors import InputError
from evoprompt.render import Prompt, Render
from evoprompt.types import INSTRUCTION, Candidate, Question, TextLimits
from evoprompt_trl.host import HostTrainer, Row


class PromptWriter:
    """Renders the prompts of one trainer and knows how long they may be.

    Args:
        trainer: whose tokenizer and model decide what fits.
        render: places the instruction in a prompt.
    """

    def __init__(self, trainer: HostTrainer, render: Render) -> None:
        self._trainer = trainer
        self._render = render

    def write(self, row: Row, candidate: Candidate) -> Row:
        """A shallow copy of ``row`` under ``candidate``; no column is added."""
        return {**row, "prompt": self._render(row["prompt"], candidate)}

    def refusals(self, pairs: Sequence[tuple[Question, Candidate]]) -> list[str]:
        """For each question under its candidate why it is too long; empty where it is not."""
        limit = self._limit()
        if limit is None:
            return [""] * len(pairs)
        reserved = self._trainer.max_completion_length
        lengths = self._lengths([self.write(dict(q.row), c)["prompt"] for q, c in pairs])
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
        refusal = next(filter(None, self.refusals(pairs)), "")
        if refusal:
            raise InputError(refusal)

    def limits(self, engine: Engine) -> TextLimits:
        """What the engine's firewall should ask of proposals, so that hardly one is refused here.

        The room is what the chat template leaves of it. Special tokens are forbidden, but for
        those that an instruction holds already, such as protocol tags.
        """
        tokenizer, limit = self._trainer.processing_class, self._limit()
        living = [candidate.text for candidate in engine.population.alive]
        room = None
        if limit is not None:
            room = limit - self._trainer.max_completion_length - self._overhead()
        return TextLimits(
            count_tokens=lru_cache(4096)(lambda text: len(tokenizer(text=[text])["input_ids"][0])),
            max_prompt_tokens=room,
            control_tokens=[
                token
                for token in tokenizer.all_special_tokens
                if not any(token in text for text in living)
            ],
        )

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
        templates = (self._trainer.processing_class, self._trainer)
        chat = any(getattr(owner, "chat_template", None) for owner in templates)
        empty: Prompt = [{"role": "user", "content": ""}] if chat else ""
        return self._lengths([self._render(empty, Candidate("", {INSTRUCTION: ""}))])[0]

    def _lengths(self, prompts: Sequence[Prompt]) -> list[int]:
        tokenizer = self._trainer.processing_class
        if not prompts:
            return []
        if isinstance(prompts[0], str):
            encoded = tokenizer(text=[str(prompt) for prompt in prompts])
        else:
            encoded = tokenizer.apply_chat_template(
                list(prompts),
                tools=getattr(self._trainer, "tools", None) or None,
                chat_template=getattr(self._trainer, "chat_template", None),
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
                **self._trainer.chat_template_kwargs,
            )
        return [len(ids) for ids in encoded["input_ids"]]
