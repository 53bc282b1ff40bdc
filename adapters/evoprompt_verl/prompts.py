"""Instructions in prompts: where they go, and whether they fit.

veRL cuts prompts that are longer than ``data.max_prompt_length`` from the *left*, with no more than
a warning in a worker's log: what disappears is the instruction. So every prompt is measured here,
with the run's own tokenizer, before it is handed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from evoprompt.agents.tokenizer import Tokenizer
from evoprompt.agents.writer import PromptWriter, Schemas
from evoprompt.hosting.prompts import Prompt, Render
from evoprompt.support.errors import InputError
from evoprompt.types import INSTRUCTION, Candidate, Question
from evoprompt_verl.context import PROMPT
from evoprompt_verl.dataset import tools_of

Messages = Sequence[Mapping[str, Any]]

_MEASURED = 64
"""Questions of a dataset, the longest by characters, that are tokenized to find the longest."""


class VerlPrompts(PromptWriter):
    """Renders the prompts of a run and knows how long they may be.

    Args:
        config: of the run.
        tokenizer: the run's.
        render: places the instruction in a prompt.
        questions: prompts of the dataset without instructions, where they are known.
        tools: schemas that every prompt shows; by default those of the run's agent loops.
    """

    def __init__(
        self,
        config: DictConfig,
        tokenizer: Tokenizer,
        render: Render,
        questions: Sequence[Messages] = (),
        tools: Schemas | None = None,
    ) -> None:
        max_tokens = int(config.data.max_prompt_length)
        template_config = config.data.get("apply_chat_template_kwargs")
        template = OmegaConf.to_container(template_config, resolve=True) if template_config else {}
        super().__init__(
            tokenizer,
            render,
            max_tokens,
            "as data.max_prompt_length says, or veRL cuts the instruction off; raise "
            "data.max_prompt_length",
            tools_of(config) if tools is None else tools,
            cast(Mapping[str, Any], template),
        )
        self.longest_allowed = max_tokens
        self.questions = questions
        self._config = config

    def render_question(self, question: Question) -> Prompt:
        """Return the messages of ``question`` without an instruction."""
        return cast(Prompt, question.row[PROMPT])

    def samples(self) -> Sequence[Prompt]:
        """Return the first questions."""
        return [list(messages) for messages in self.questions[:_MEASURED]]

    def chat_template(self) -> str | None:
        """Return the chat template of the run, which replaces the tokenizer's."""
        template: str | None = OmegaConf.select(
            self._config, "actor_rollout_ref.model.custom_chat_template"
        )
        return template or None

    def origin(self) -> tuple[str, str]:
        """Return the names of the trainer and of the model."""
        path = OmegaConf.select(self._config, "actor_rollout_ref.model.path")
        return "veRL PPOTrainer", str(path or "")

    def lengths(self, prompts: Sequence[Prompt]) -> list[int]:
        """Return the tokens of each rendered prompt, as the agent loops will count them."""
        return [len(ids) for ids in self.encode(prompts)]

    def require_room_for(self, instructions: Iterable[str], questions: Sequence[Messages]) -> None:
        """Check that the longest of ``questions`` fits under each of ``instructions``.

        Raises:
            InputError: a question does not fit.
        """
        for text in instructions:
            candidate = Candidate(repr(_shortened(text)), {INSTRUCTION: text})
            prompts = [self.write(messages, candidate) for messages in longest(questions)]
            names = ["one of the questions"] * len(prompts)
            refusals = self.refusals_of(prompts, [candidate] * len(prompts), names)
            if refusal := next(filter(None, refusals), ""):
                raise InputError(refusal)

    def fit_questions(
        self, questions: Sequence[Messages], candidates: Sequence[Sequence[Candidate]]
    ) -> list[list[Prompt]]:
        """Return each question under each of its candidates; none if one of these is too long.

        If all are, the shortest question is there without an instruction: veRL stops where a whole
        batch has failed.
        """
        pairs = zip(questions, candidates, strict=True)
        rendered_prompts = [self.write(question, c) for question, of_one in pairs for c in of_one]
        rendered = zip(rendered_prompts, self.lengths(rendered_prompts), strict=True)
        fitted_prompts: list[list[Prompt]] = []
        for of_question in candidates:
            prompts = list(islice(rendered, len(of_question)))
            is_fitting = all(length <= self.longest_allowed for _, length in prompts)
            fitted_prompts.append([prompt for prompt, _ in prompts] if is_fitting else [])
        if not any(fitted_prompts):
            row = min(range(len(questions)), key=lambda row: _characters(questions[row]))
            fitted_prompts[row] = [questions[row]]
        return fitted_prompts

    def longest_question(self) -> int:
        """Return the tokens of the longest question without an instruction; 0 without one."""
        return max(self.lengths(self._render_bare(longest(self.questions))), default=0)

    def longest_with_room(
        self, questions: Sequence[Messages], members: Sequence[str]
    ) -> tuple[int, int]:
        """Return the tokens of the longest question with room, and how many have no room.

        Args:
            questions: to measure, the longest by characters first, until one fits.
            members: instructions in use; the shortest of them is what has to fit.
        """
        min_tokens = min((self.count(text) for text in members), default=0)
        ordered = sorted(questions, key=_characters, reverse=True)
        refused = 0
        for start in range(0, len(ordered), _MEASURED):
            lengths = self.lengths(self._render_bare(ordered[start : start + _MEASURED]))
            fitting = [length for length in lengths if length + min_tokens <= self.longest_allowed]
            refused += len(lengths) - len(fitting)
            if fitting:
                return max(fitting), refused
        return 0, refused

    def _render_bare(self, questions: Sequence[Messages]) -> list[Prompt]:
        empty = Candidate("", {INSTRUCTION: ""})
        return [self.write(messages, empty) for messages in questions]


def longest(questions: Sequence[Messages]) -> list[Messages]:
    """Return the longest of ``questions`` by characters, at most 64 of them."""
    return sorted(questions, key=_characters, reverse=True)[:_MEASURED]


def _characters(messages: Messages) -> int:
    return sum(len(str(message.get("content", ""))) for message in messages)


def _shortened(text: str, width: int = 40) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
