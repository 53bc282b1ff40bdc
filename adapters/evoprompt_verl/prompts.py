"""Instructions in prompts: where they go, and whether they fit.

veRL cuts prompts that are longer than ``data.max_prompt_length`` from the *left*, with no more than
a warning in a worker's log: what disappears is the instruction. So every prompt is measured here,
with the run's own tokenizer, before it is handed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from omegaconf import DictConfig

from evoprompt.agents.prompt_lengths import Schemas, chat_lengths, forbidden, require_none
from evoprompt.agents.tokenizer import template_refusal
from evoprompt.prompts import Message, Prompt, Render, marked_prompt
from evoprompt.types import INSTRUCTION, Candidate, Setting, TextLimits
from evoprompt_verl.dataset import tools_of
from evoprompt_verl.host import HostTokenizer

Messages = Sequence[Mapping[str, Any]]

_MEASURED = 64
"""Questions of a dataset, the longest by characters, that are tokenized to find the longest."""


@dataclass(frozen=True, slots=True)
class Written:
    """A prompt with an instruction in it.

    Attributes:
        prompt: rendered.
        candidate: whose instruction it holds; None if it holds none.
    """

    prompt: Prompt
    candidate: Candidate | None


class PromptWriter:
    """Renders prompts and knows how long they may be.

    Args:
        tokenizer: the run's.
        max_tokens: ``data.max_prompt_length``.
        render: places the instruction in a prompt.
        tools: schemas of the tools that the agent loops put into every prompt.
        template: further arguments of the chat template.
    """

    def __init__(
        self,
        tokenizer: HostTokenizer,
        max_tokens: int,
        render: Render,
        tools: Sequence[Mapping[str, Any]] = (),
        template: Mapping[str, Any] | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens
        self._render = render
        self._tools = tools
        self._template = dict(template or {})

    @classmethod
    def of(cls, config: DictConfig, tokenizer: HostTokenizer, render: Render) -> PromptWriter:
        """The writer of a run: its limit, the tools of its agent loops and its template."""
        return cls(
            tokenizer,
            config.data.max_prompt_length,
            render,
            tools_of(config),
            config.data.get("apply_chat_template_kwargs"),
        )

    def write(self, messages: Messages, candidate: Candidate) -> Prompt:
        """``messages`` with the instruction of ``candidate`` in its place."""
        return self._render(messages, candidate)

    def setting(self, questions: Sequence[Messages], reward: str) -> Setting:
        """What the engine's proposer is told of the run.

        Args:
            questions: of its dataset; the first one stands for all.
            reward: what its score rewards.
        """
        prompt = marked_prompt(questions[0], self._render) if questions else ""
        return Setting(prompt, self._tools, reward)

    def lengths(self, prompts: Sequence[Prompt]) -> list[int]:
        """Tokens of each rendered prompt, as the agent loops will count them."""
        chats = [prompt for prompt in prompts if not isinstance(prompt, str)]  # veRL's all are
        return chat_lengths(chats, self._tools, self._encoded)

    def _encoded(self, chats: list[list[Message]], tools: Schemas) -> Sequence[Sequence[int]]:
        try:
            encoded = self._tokenizer.apply_chat_template(
                chats,
                tools=list(tools) or None,
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
                **self._template,
            )
        except Exception as error:  # jinja's own, or whatever a template raises
            raise template_refusal([one for chat in chats for one in chat], error) from error
        found: Sequence[Sequence[int]] = encoded["input_ids"]
        return found

    def refusals(self, prompts: Sequence[Prompt], candidates: Sequence[Candidate]) -> list[str]:
        """For each rendered prompt why it is too long; empty where it is not."""
        return [
            f"candidate {candidate.id} makes a prompt of {length} tokens; required: at most "
            f"data.max_prompt_length {self._max_tokens}, or veRL cuts the instruction off; "
            "shorten the instruction, drop such long questions or raise data.max_prompt_length"
            if length > self._max_tokens
            else ""
            for length, candidate in zip(self.lengths(prompts), candidates, strict=True)
        ]

    def require_room(self, prompts: Sequence[Prompt], candidates: Sequence[Candidate]) -> None:
        """Makes sure that every rendered prompt fits.

        Raises:
            InputError: one does not.
        """
        require_none(self.refusals(prompts, candidates))

    def require_room_for(self, instructions: Iterable[str], questions: Sequence[Messages]) -> None:
        """Makes sure that the longest of ``questions`` fits under each of ``instructions``.

        Raises:
            InputError: one does not.
        """
        for text in instructions:
            candidate = Candidate(repr(_shortened(text)), {INSTRUCTION: text})
            prompts = [self.write(messages, candidate) for messages in longest(questions)]
            self.require_room(prompts, [candidate] * len(prompts))

    def fitting(
        self,
        questions: Sequence[Messages],
        candidates: Sequence[Candidate],
        living: Sequence[Candidate],
    ) -> list[Written | None]:
        """Each question under its candidate; where that is too long, under the longest that fits.

        Args:
            questions: messages without an instruction.
            candidates: the wanted one of each question.
            living: those to try instead.

        Returns:
            One entry per question, None where not even the shortest of ``living`` fits. If none
            fits at all, the shortest question is there without an instruction: veRL stops where a
            whole batch has failed.
        """
        written = [Written(self.write(q, c), c) for q, c in zip(questions, candidates, strict=True)]
        others = sorted(living, key=lambda candidate: len(candidate.text), reverse=True)
        lengths = self.lengths([one.prompt for one in written])
        found = [
            one if length <= self._max_tokens else self._first_fitting(question, others)
            for one, length, question in zip(written, lengths, questions, strict=True)
        ]
        if not any(found):
            row = min(range(len(questions)), key=lambda row: _characters(questions[row]))
            found[row] = Written(questions[row], None)
        return found

    def _first_fitting(self, question: Messages, candidates: Sequence[Candidate]) -> Written | None:
        for candidate in candidates:
            prompt = self.write(question, candidate)
            if self.lengths([prompt])[0] <= self._max_tokens:
                return Written(prompt, candidate)
        return None

    def limits(
        self, questions: Sequence[Messages], living: Sequence[str], taken: int = 0
    ) -> TextLimits:
        """What screening should ask of proposals, so that each fits with each of ``questions``.

        Special tokens are forbidden, but for those that a living instruction holds already.

        Args:
            questions: to fit with.
            living: instructions in use.
            taken: tokens of a longer prompt without an instruction, if there is one.
        """
        empty = Candidate("", {INSTRUCTION: ""})
        lengths = self.lengths([self.write(messages, empty) for messages in longest(questions)])
        return TextLimits(
            count_tokens=lru_cache(4096)(self._tokens),
            max_tokens=self._max_tokens - max([taken, *lengths]),
            control_tokens=forbidden(self._tokenizer.all_special_tokens, living),
        )

    def longest_with_room(
        self, questions: Sequence[Messages], living: Sequence[str]
    ) -> tuple[int, int]:
        """Tokens of the longest question that fits with an instruction, and how many fit with none.

        Args:
            questions: to measure, the longest by characters first, until one fits.
            living: instructions in use; the shortest of them is what has to fit.
        """
        empty = Candidate("", {INSTRUCTION: ""})
        least = min((self._tokens(text) for text in living), default=0)
        ordered = sorted(questions, key=_characters, reverse=True)
        refused = 0
        for start in range(0, len(ordered), _MEASURED):
            some = [self.write(messages, empty) for messages in ordered[start : start + _MEASURED]]
            lengths = self.lengths(some)
            fitting = [length for length in lengths if length + least <= self._max_tokens]
            refused += len(lengths) - len(fitting)
            if fitting:
                return max(fitting), refused
        return 0, refused

    def _tokens(self, text: str) -> int:
        return len(self._tokenizer(text, add_special_tokens=False)["input_ids"])


def longest(questions: Sequence[Messages]) -> list[Messages]:
    """The longest of ``questions`` by characters, at most 64 of them."""
    return sorted(questions, key=_characters, reverse=True)[:_MEASURED]


def _characters(messages: Messages) -> int:
    return sum(len(str(message.get("content", ""))) for message in messages)


def _shortened(text: str, width: int = 40) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
