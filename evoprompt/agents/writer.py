"""The prompts of one training: where an instruction stands, their lengths, how to repeat them."""

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
    Message,
    Prompt,
    Render,
    marked_prompt,
    without_tool_descriptions,
)
from evoprompt.support.errors import InputError
from evoprompt.types import INSTRUCTION, Candidate, Question, TaskContext, TextLimits

Schemas = Sequence[Mapping[str, Any]]

_COMPARED = 64  # rows whose system messages are compared


@dataclass(eq=False)
class PromptWriter(ABC):
    """Writes prompts with instructions for one trainer, and refuses those that are too long.

    An adapter inherits it, and says how its trainer makes tokens.

    Attributes:
        tokenizer: of ``transformers``, or a processor that has one.
        render: places the instruction in a prompt.
        most: tokens of a prompt; None where nothing bounds them.
        bound: what bounds them, and what could be done about it, for messages.
        tools: schemas that every prompt shows.
        template: further variables of the chat template.
    """

    tokenizer: Any
    render: Render
    most: int | None
    bound: str
    tools: Schemas
    template: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Finds the tokenizer of a processor."""
        self._text_tokenizer = getattr(self.tokenizer, "tokenizer", self.tokenizer)

    @abstractmethod
    def asked(self, question: Question) -> Prompt:
        """The prompt of ``question`` without an instruction."""

    @abstractmethod
    def chat_template(self) -> str | None:
        """The chat template that the trainer uses instead of the tokenizer's; None if the same."""

    @abstractmethod
    def origin(self) -> tuple[str, str]:
        """Names of the trainer, and of the model it started from; empty where not known."""

    @abstractmethod
    def samples(self) -> Sequence[Prompt]:
        """Some prompts of the dataset without instructions; empty where they are not known."""

    def write(self, prompt: Prompt, candidate: Candidate) -> Prompt:
        """``prompt`` with the instruction of ``candidate`` in its place."""
        return self.render(prompt, candidate)

    # ------------------------------------------------------------------------------------- length

    def encode(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        """Token ids of rendered prompts, all plain text or all chats, as the trainer makes them."""
        chats = [prompt for prompt in prompts if not isinstance(prompt, str)]
        if len(chats) < len(prompts):
            return [list(ids) for ids in self.tokenizer(text=list(prompts))["input_ids"]]
        found: list[list[int]] = []
        plain = [without_tool_descriptions(chat) for chat in chats]
        # Most often nobody describes a tool anew, and all are encoded at once.
        for descriptions, same in groupby(plain, key=lambda one: one[1]):
            shown = described(self.tools, descriptions) if descriptions else self.tools
            found += map(list, self._encode_chats([messages for messages, _ in same], shown))
        return found

    def refusals_of(
        self, prompts: Sequence[Prompt], candidates: Sequence[Candidate], names: Sequence[str]
    ) -> list[str]:
        """For each rendered prompt why it is too long; empty where it is not.

        Args:
            prompts: rendered.
            candidates: whose instructions they hold.
            names: what to call their questions.
        """
        most = self.most
        if most is None or not prompts:
            return [""] * len(prompts)
        return [
            f"candidate {candidate.id} makes a prompt of {len(ids)} tokens for {name}; required: "
            f"at most {most}, {self.bound}; shorten the instruction or drop such long questions"
            if len(ids) > most
            else ""
            for ids, candidate, name in zip(self.encode(prompts), candidates, names, strict=True)
        ]

    def refusals(self, pairs: Sequence[tuple[Question, Candidate]]) -> list[str]:
        """For each question under its candidate why it is too long; empty where it is not."""
        prompts = [self.write(self.asked(question), candidate) for question, candidate in pairs]
        names = [f"question {question.id!r}" for question, _ in pairs]
        return self.refusals_of(prompts, [candidate for _, candidate in pairs], names)

    def require_room(self, pairs: Sequence[tuple[Question, Candidate]]) -> None:
        """Makes sure that every question fits under its candidate.

        Raises:
            InputError: one does not.
        """
        if refusal := next(filter(None, self.refusals(pairs)), ""):
            raise InputError(refusal)

    def count(self, text: str) -> int:
        """Tokens of ``text`` alone."""
        return len(self._text_tokenizer(text=[text], add_special_tokens=False)["input_ids"][0])

    def limits(self, members: Sequence[str], taken: int | None = None) -> TextLimits:
        """What screening should ask of proposals, so that hardly one is refused here.

        Special tokens are forbidden, but for those that an instruction holds already, such as
        protocol tags.

        Args:
            members: instructions in use.
            taken: tokens of the longest prompt without one; None if that is not known, so that
                what a chat template takes is left for a question.
        """
        special = self._text_tokenizer.all_special_tokens
        control = [one for one in special if not any(one in text for text in members)]
        count = lru_cache(4096)(self.count)
        around = len(self.encode([self.empty()])[0])  # says so where no instruction can stand there
        if self.most is None:
            return TextLimits(count_tokens=count, control_tokens=control)
        if taken is not None:
            return TextLimits(
                count_tokens=count, max_tokens=self.most - taken, control_tokens=control
            )
        return TextLimits(
            count_tokens=count,
            max_prompt_tokens=self.most - around,
            control_tokens=control,
        )

    def empty(self) -> Prompt:
        """A rendered prompt in which neither instruction nor question says anything."""
        first = next(iter(self.samples()), None)
        asked: Prompt = "" if isinstance(first, str) else [{"role": "user", "content": ""}]
        return self.write(asked, Candidate("", {INSTRUCTION: ""}))

    # ---------------------------------------------------------------------------- what it tells

    def setting(self, reward: str) -> TaskContext:
        """What a proposer is told of the training; its first prompt stands for all."""
        first = next(iter(self.samples()), "")
        prompt = marked_prompt(first, self.render) if first else ""
        return TaskContext(prompt, self.tools, reward, call=self._call())

    def _call(self) -> str:
        """A call of the first tool as the chat template writes it; empty where it writes none."""
        variables = {**self.template, "chat_template": self.chat_template()}
        chatting = TemplateVariables(self._text_tokenizer, variables)
        try:
            return ToolCallProtocol(chatting).example(self.tools[0]) if self.tools else ""
        except InputError:
            return ""

    def reached(self, ids: Sequence[int], before: Prompt, after: Prompt) -> bool:
        """Whether the policy was given what the instruction has changed of a prompt.

        Texts are compared as the tokenizer gives them back, without white space: chat templates
        trim, and a tokenizer may fold case or not know every word.

        Args:
            ids: of the prompt that the policy was given.
            before: without the instruction.
            after: with it.
        """
        given = self._read(ids)
        known = texts_of(before)
        placed = [text for text in texts_of(after) if text and text not in known]
        tokens = [self._text_tokenizer(text=[one], add_special_tokens=False) for one in placed]
        back = [self._read(token["input_ids"][0]) for token in tokens]
        return any(text and text in given for text in [*map(_squeezed, placed), *back])

    def recipe(self, engine: Engine) -> Recipe | None:
        """How a question is put with the best candidate of this moment.

        None where a function of somebody's own places the instruction: no template can.

        Raises:
            InputError: prompts are conversations, and there is no chat template.
        """
        placement = placement_of(self.render)
        if placement is None:
            return None
        best, samples, (trainer, base) = engine.best, self.samples()[:_COMPARED], self.origin()
        plain = bool(samples) and isinstance(samples[0], str)
        recipe = Recipe(
            candidate=best.id,
            components=dict(best.components),
            statement=engine.best_statement(),
            placement=placement,
            template=None if plain else self._template(),
            system=common_system(samples, placement),
            tools=[dict(schema) for schema in self.tools],
            settings=dict(self.template),
            around=_around(self.tokenizer) if plain else ("", ""),
            base=base,
            step=engine.step,
            rollouts=engine.rollouts,
            trainer=trainer,
        )
        probes = self.encode([recipe.prompt(question) for question in PROBES])
        return recipe.model_copy(update={"probes": probes})

    def _read(self, ids: Sequence[int]) -> str:
        return _squeezed(self._text_tokenizer.decode(list(ids), skip_special_tokens=False))

    def _template(self) -> str:
        found = self.chat_template()
        found = found or getattr(self.tokenizer, "chat_template", None)
        found = found or getattr(self._text_tokenizer, "chat_template", None)
        if isinstance(found, Mapping):  # several by name
            found = found.get("tool_use" if self.tools and "tool_use" in found else "default")
        if not found:
            raise InputError(
                f"the prompts are conversations, but the {type(self.tokenizer).__name__} of the "
                "trainer has no chat template; required: a model that was taught to chat, with its "
                "chat_template.jinja in the folder; under veRL also one that "
                "actor_rollout_ref.model.custom_chat_template gives; or prompts of plain text"
            )
        return str(found)

    def _encode_chats(self, chats: list[list[Message]], tools: Schemas) -> Sequence[Sequence[int]]:
        self._template()  # says so if there is none
        if hasattr(self.tokenizer, "tokenizer"):
            chats = [[_in_parts(message) for message in chat] for chat in chats]
        given = {**self.template, "chat_template": self.chat_template()}
        chatting = TemplateVariables(self.tokenizer, given)
        for chat in [chat for chat in chats if chat[0].get("role") == "system"][:1]:
            rendered(chatting, [dict(message) for message in chat], tools)  # leaves nothing out
        try:
            encoded = chatting.apply_chat_template(
                [*chats],
                list(tools) or None,
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
            )
        except Exception as error:  # jinja's own, or whatever a template raises
            raise template_refusal([one for chat in chats for one in chat], error) from error
        found: Sequence[Sequence[int]] = encoded["input_ids"]
        return found


def texts_of(prompt: Prompt) -> list[str]:
    """The texts of a prompt: of each message, or of each of its parts."""
    if isinstance(prompt, str):
        return [prompt]
    texts: list[str] = []
    for message in prompt:
        content = message.get("content")
        parts: Sequence[Any] = [{"text": content}] if isinstance(content, str) else content or ()
        found = (part.get("text") for part in parts if isinstance(part, Mapping))
        texts += [text for text in found if isinstance(text, str)]
    return texts


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _in_parts(message: Message) -> Message:
    """``message`` as processors take it: its content a list of parts."""
    content = message.get("content")
    if not isinstance(content, str):
        return message
    return {**message, "content": [{"type": "text", "text": content}]}


def _around(tokenizer: Any) -> tuple[str, str]:
    """The special tokens that ``tokenizer`` puts around plain text."""
    bare = tokenizer(text=["a"], add_special_tokens=False)["input_ids"][0]
    whole = tokenizer(text=["a"])["input_ids"][0]
    for start in range(len(whole) - len(bare) + 1):
        if whole[start : start + len(bare)] == bare:
            before, after = whole[:start], whole[start + len(bare) :]
            return tokenizer.decode(before), tokenizer.decode(after)
    return "", ""
