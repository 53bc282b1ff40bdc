"""Prompts of one training: the place of the instruction, their lengths, and their recipe."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any

from evoprompt.agents.recipe import PROBES, Recipe, common_system, placement_of
from evoprompt.agents.tokenizer import (
    TemplateVariables,
    described,
    rendered,
    template_refusal,
)
from evoprompt.agents.toolcalls import ToolCallProtocol
from evoprompt.engine import Engine
from evoprompt.hosting.prompts import (
    SYSTEM_ROLES,
    Message,
    Prompt,
    Render,
    marked_prompt,
    without_tool_descriptions,
)
from evoprompt.support.errors import InputError
from evoprompt.types import INSTRUCTION, Candidate, Question, TaskContext, TextLimits

Schemas = Sequence[Mapping[str, Any]]

_NUM_COMPARED = 64  # number of rows with system messages that are compared


@dataclass(eq=False)
class PromptWriter(ABC):
    """Writer of prompts with instructions for one trainer, which refuses prompts that are too long.

    An adapter inherits from it, and implements the tokenization of its trainer.

    Attributes:
        tokenizer: tokenizer of ``transformers``, or a processor that has one.
        render: function that places the instruction in a prompt.
        max_tokens: maximum number of tokens of a prompt; None without a limit.
        bound: origin of the limit, and the remedy, for messages.
        tools: schemas that every prompt shows.
        template: further variables of the chat template.
    """

    tokenizer: Any
    render: Render
    max_tokens: int | None
    bound: str
    tools: Schemas
    template: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Find the tokenizer of a processor."""
        self._text_tokenizer = getattr(self.tokenizer, "tokenizer", self.tokenizer)

    @abstractmethod
    def render_question(self, question: Question) -> Prompt:
        """Return the prompt of ``question`` without an instruction."""

    @abstractmethod
    def chat_template(self) -> str | None:
        """Return the chat template that replaces the tokenizer's; None if it is the same."""

    @abstractmethod
    def origin(self) -> tuple[str, str]:
        """Return the names of the trainer and of its first model; empty if unknown."""

    @abstractmethod
    def samples(self) -> Sequence[Prompt]:
        """Return some prompts of the dataset without instructions; empty if they are unknown."""

    def write(self, prompt: Prompt, candidate: Candidate) -> Prompt:
        """Return ``prompt`` with the instruction of ``candidate`` in its place.

        Raises:
            InputError: the render function returned no prompt.
        """
        prompt = self.render(prompt, candidate)
        if not isinstance(prompt, Sequence):
            raise InputError(
                f"the render function returned a {type(prompt).__name__}; required: a text or a "
                "list of messages; use one of evoprompt.hosting.prompts"
            )
        return prompt

    # ------------------------------------------------------------------------------------- length

    def encode(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        """Return the token ids of rendered prompts, as the trainer makes them.

        The prompts are all plain text or all chats.
        """
        chats = [prompt for prompt in prompts if not isinstance(prompt, str)]
        if len(chats) < len(prompts):
            return [list(ids) for ids in self.tokenizer(text=list(prompts))["input_ids"]]
        encoded: list[list[int]] = []
        plain = [without_tool_descriptions(chat) for chat in chats]
        # Usually no tool has a new description, and all prompts are encoded together.
        for descriptions, group in groupby(plain, key=lambda pair: pair[1]):
            tools = described(self.tools, descriptions) if descriptions else self.tools
            encoded += map(list, self._encode_chats([messages for messages, _ in group], tools))
        return encoded

    def refusals_of(
        self, prompts: Sequence[Prompt], candidates: Sequence[Candidate], names: Sequence[str]
    ) -> list[str]:
        """Return for each rendered prompt the reason why it is too long; empty if it fits.

        Args:
            prompts: rendered prompts.
            candidates: candidates of their instructions.
            names: names of their questions in messages.
        """
        limit = self.max_tokens
        if limit is None or not prompts:
            return [""] * len(prompts)
        return [
            f"candidate {candidate.id} makes a prompt of {len(ids)} tokens for {name}; required: "
            f"at most {limit}, {self.bound}; shorten the instruction or drop such long questions"
            if len(ids) > limit
            else ""
            for ids, candidate, name in zip(self.encode(prompts), candidates, names, strict=True)
        ]

    def refusals(self, pairs: Sequence[tuple[Question, Candidate]]) -> list[str]:
        """Return for each question and candidate why the prompt is too long; empty if it fits."""
        prompts = [
            self.write(self.render_question(question), candidate) for question, candidate in pairs
        ]
        names = [f"question {question.id!r}" for question, _ in pairs]
        return self.refusals_of(prompts, [candidate for _, candidate in pairs], names)

    def require_room(self, pairs: Sequence[tuple[Question, Candidate]]) -> None:
        """Require that every question fits under its candidate.

        Raises:
            InputError: a question does not fit.
        """
        if refusal := next(filter(None, self.refusals(pairs)), ""):
            raise InputError(refusal)

    def count(self, text: str) -> int:
        """Return the number of tokens of ``text`` alone."""
        return len(self._text_tokenizer(text=[text], add_special_tokens=False)["input_ids"][0])

    def limits(self, members: Sequence[str], used_tokens: int | None = None) -> TextLimits:
        """Return limits for screening, such that few proposals are refused later.

        Special tokens are forbidden, except those that an instruction already contains, such as
        protocol tags.

        Args:
            members: instructions of the members.
            used_tokens: tokens of the longest prompt without an instruction; None if unknown, so
                that only the tokens of the chat template are subtracted.
        """
        special = self._text_tokenizer.all_special_tokens
        control = [token for token in special if not any(token in text for text in members)]
        count = lru_cache(4096)(self.count)
        around = len(self.encode([self.empty()])[0])  # raises if no instruction can be placed
        if self.max_tokens is None:
            return TextLimits(count_tokens=count, control_tokens=control)
        if used_tokens is not None:
            return TextLimits(
                count_tokens=count, max_tokens=self.max_tokens - used_tokens, control_tokens=control
            )
        return TextLimits(
            count_tokens=count,
            max_prompt_tokens=self.max_tokens - around,
            control_tokens=control,
        )

    def empty(self) -> Prompt:
        """Return a rendered prompt with an empty instruction and an empty question."""
        first = next(iter(self.samples()), None)
        prompt: Prompt = "" if isinstance(first, str) else [{"role": "user", "content": ""}]
        return self.write(prompt, Candidate("", {INSTRUCTION: ""}))

    # ----------------------------------------------------------------------- context and recipe

    def setting(self, reward: str) -> TaskContext:
        """Return the context of the training for a proposer; its first prompt represents all."""
        first = next(iter(self.samples()), "")
        prompt = marked_prompt(first, self.render) if first else ""
        return TaskContext(prompt, self.tools, reward, call=self._call())

    def _call(self) -> str:
        """Return a call of the first tool in the chat template's form; empty if it has none."""
        variables = {**self.template, "chat_template": self.chat_template()}
        chatting = TemplateVariables(self._text_tokenizer, variables)
        try:
            return ToolCallProtocol(chatting).example(self.tools[0]) if self.tools else ""
        except InputError:
            return ""

    def reached(self, ids: Sequence[int], before: Prompt, after: Prompt) -> bool:
        """Return whether the policy's prompt contains the text that the instruction changes.

        Texts are compared as the tokenizer decodes them, without white space: chat templates trim,
        and a tokenizer may fold case or lack some words.

        Args:
            ids: tokens of the policy's prompt.
            before: prompt without the instruction.
            after: prompt with the instruction.
        """
        policy_text = self._read(ids)
        texts_before = texts_of(before)
        placed = [text for text in texts_of(after) if text and text not in texts_before]
        tokens = [self._text_tokenizer(text=[text], add_special_tokens=False) for text in placed]
        back = [self._read(token["input_ids"][0]) for token in tokens]
        return any(text and text in policy_text for text in [*map(_squeezed, placed), *back])

    def recipe(self, engine: Engine) -> Recipe | None:
        """Return the recipe of the prompts with the current best candidate.

        None if a user's function places the instruction: no template can repeat that.

        Raises:
            InputError: prompts are conversations, and there is no chat template.
        """
        placement = placement_of(self.render)
        if placement is None:
            return None
        best, samples, (trainer, base) = engine.best, self.samples()[:_NUM_COMPARED], self.origin()
        plain = bool(samples) and isinstance(samples[0], str)
        role, system = common_system(samples, placement)
        recipe = Recipe(
            candidate=best.id,
            components=dict(best.components),
            statement=engine.best_statement(),
            placement=placement,
            template=None if plain else self._template(),
            system=system,
            system_role=role,
            tools=[dict(schema) for schema in self.tools],
            settings=dict(self.template),
            around=_around(self.tokenizer) if plain else ("", ""),
            base=base,
            step=engine.step,
            rollouts=engine.rollouts,
            failures=engine.failure_watch.failures,
            trainer=trainer,
        )
        probes = self.encode([recipe.prompt(question) for question in PROBES])
        return recipe.model_copy(update={"probes": probes})

    def _read(self, ids: Sequence[int]) -> str:
        return _squeezed(self._text_tokenizer.decode(list(ids), skip_special_tokens=False))

    def _template(self) -> str:
        template = self.chat_template()
        template = template or getattr(self.tokenizer, "chat_template", None)
        template = template or getattr(self._text_tokenizer, "chat_template", None)
        if isinstance(template, Mapping):  # several by name
            template = template.get(
                "tool_use" if self.tools and "tool_use" in template else "default"
            )
        if not template:
            raise InputError(
                f"the prompts are conversations, but the {type(self.tokenizer).__name__} of the "
                "trainer has no chat template; required: a model trained to chat, with its "
                "chat_template.jinja in the folder; under veRL also one that "
                "actor_rollout_ref.model.custom_chat_template gives; or prompts of plain text"
            )
        return str(template)

    def _encode_chats(self, chats: list[list[Message]], tools: Schemas) -> Sequence[Sequence[int]]:
        self._template()  # raises if there is none
        if hasattr(self.tokenizer, "tokenizer"):
            chats = [[_in_parts(message) for message in chat] for chat in chats]
        variables = {**self.template, "chat_template": self.chat_template()}
        chatting = TemplateVariables(self.tokenizer, variables)
        for chat in [chat for chat in chats if chat[0].get("role") in SYSTEM_ROLES][:1]:
            rendered(chatting, list(map(dict, chat)), tools)  # checks the system message
        try:
            encoded = chatting.apply_chat_template(
                [*chats],
                list(tools) or None,
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
            )
        except Exception as error:  # an error of jinja, or any error that a template raises
            raise template_refusal(
                [message for chat in chats for message in chat], error
            ) from error
        input_ids: Sequence[Sequence[int]] = encoded["input_ids"]
        return input_ids


def texts_of(prompt: Prompt) -> list[str]:
    """Return the texts of a prompt: of each message, or of each of its parts."""
    if isinstance(prompt, str):
        return [prompt]
    texts: list[str] = []
    for message in prompt:
        content = message.get("content")
        parts: Sequence[Any] = [{"text": content}] if isinstance(content, str) else content or ()
        part_texts = (part.get("text") for part in parts if isinstance(part, Mapping))
        texts += [text for text in part_texts if isinstance(text, str)]
    return texts


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _in_parts(message: Message) -> Message:
    """Return ``message`` in the form of processors: its content is a list of parts."""
    content = message.get("content")
    if not isinstance(content, str):
        return message
    return {**message, "content": [{"type": "text", "text": content}]}


def _around(tokenizer: Any) -> tuple[str, str]:
    """Return the special tokens that ``tokenizer`` puts around plain text."""
    bare = tokenizer(text=["a"], add_special_tokens=False)["input_ids"][0]
    whole = tokenizer(text=["a"])["input_ids"][0]
    for start in range(len(whole) - len(bare) + 1):
        if whole[start : start + len(bare)] == bare:
            before, after = whole[:start], whole[start + len(bare) :]
            return tokenizer.decode(before), tokenizer.decode(after)
    return "", ""
