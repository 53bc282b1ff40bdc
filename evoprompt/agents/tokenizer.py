"""Interfaces of the tokenizers of agents, and the conversion of prompts into tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from evoprompt.agents.conversation import END, written_action, written_results
from evoprompt.hosting.prompts import SYSTEM_ROLES, Prompt, without_tool_descriptions
from evoprompt.support.errors import InputError

_PROBE = "probe-4b1f"


class Tokenizer(Protocol):
    """Part of the interface of a ``transformers`` tokenizer that an agent needs."""

    @property
    def eos_token_id(self) -> Any:
        """Return the token that ends a text; None if there is none."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Return the token ids of ``text``."""

    def decode(self, token_ids: list[int], skip_special_tokens: bool) -> str | list[str]:
        """Return the text of token ids."""


class ChatTokenizer(Tokenizer, Protocol):
    """Tokenizer that may have a chat template."""

    @property
    def chat_template(self) -> Any:
        """Return the template; None for a model that was never trained to chat."""

    @property
    def eos_token(self) -> Any:
        """Return the text of ``eos_token_id``."""

    def apply_chat_template(
        self,
        conversation: list[dict[str, Any]],
        tools: list[Any] | None,
        *,
        add_generation_prompt: bool,
        tokenize: bool,
    ) -> Any:
        """Return the conversation as text, or as tokens."""


def encode(
    tokenizer: ChatTokenizer, prompt: Prompt, tools: Sequence[Mapping[str, Any]] = ()
) -> list[int]:
    """Return the token ids of a prompt: messages by the chat template, plain text unchanged.

    Args:
        tokenizer: tokenizer of the policy.
        prompt: messages or plain text.
        tools: schemas that the template shows to the policy; descriptions in the messages replace
            those of the schemas.

    Raises:
        InputError: messages or tools are given, and the tokenizer has no chat template; or the
            tool of a description does not exist.
    """
    if isinstance(prompt, str) and not tools:
        return tokenizer.encode(prompt, add_special_tokens=True)
    conversation = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    messages, descriptions = without_tool_descriptions(conversation)
    if tokenizer.chat_template is None:
        raise InputError(
            "the prompt is a conversation, but the tokenizer has no chat template; required: a "
            "model that was trained to chat, or a prompt of plain text without tools"
        )
    text = rendered(
        tokenizer, [dict(message) for message in messages], described(tools, descriptions)
    )
    return tokenizer.encode(text, add_special_tokens=False)


def rendered(
    tokenizer: ChatTokenizer,
    messages: list[dict[str, Any]],
    tools: Sequence[Mapping[str, Any]] = (),
    *,
    going_on: bool = True,
) -> str:
    """Render a conversation with the chat template; all rendering here uses this function.

    Args:
        tokenizer: tokenizer of the policy.
        messages: messages of the conversation.
        tools: schemas that the template shows.
        going_on: whether the next message is the policy's.

    Raises:
        InputError: the template refuses the conversation, or leaves its system message out.
    """
    try:
        text = tokenizer.apply_chat_template(
            messages, tools=list(tools) or None, add_generation_prompt=going_on, tokenize=False
        )
    except Exception as error:  # an error of jinja, or any error that a template raises
        raise template_refusal(messages, error) from error
    if not messages or messages[0].get("role") not in SYSTEM_ROLES:
        return str(text)
    system = messages[0]["content"]
    system_text = system.strip() if isinstance(system, str) else ""
    if (system_text and system_text in str(text)) or _PROBE in str(system):
        return str(text)
    probe_content = _PROBE if isinstance(system, str) else [{"type": "text", "text": _PROBE}]
    probe = [{"role": messages[0]["role"], "content": probe_content}, *messages[1:]]
    if _PROBE not in rendered(tokenizer, probe, tools, going_on=going_on):
        raise template_refusal(
            messages, ValueError(f"it leaves the {messages[0]['role']} message out")
        )
    return str(text)


def template_refusal(messages: Sequence[Mapping[str, Any]], error: Exception) -> InputError:
    """Return the error for a chat template that refuses ``messages``, with the remedy."""
    reason = " ".join(str(error).split())[:300]
    present = {message.get("role") for message in messages}
    roles = [role for role in SYSTEM_ROLES if role in present]
    if roles:
        return InputError(
            f"the chat template does not take a {roles[0]} message ({reason}); required: a "
            "template with a system role, or the instruction in the first user message: placement "
            '"user" '
            "of a task, evoprompt.placement=user under veRL, or attach(..., "
            "render=evoprompt.hosting.prompts.user_prefix)"
        )
    return InputError(
        f"the chat template cannot render the conversation ({reason}); required: messages in roles "
        "that the template knows; change the prompts, or choose another model"
    )


class TemplateVariables:
    """Tokenizer with variables that its chat template always gets.

    Args:
        tokenizer: tokenizer of the policy, to which all further attributes belong.
        variables: variables such as ``enable_thinking``, like ``chat_template_kwargs`` of trainers.
    """

    def __init__(self, tokenizer: ChatTokenizer, variables: Mapping[str, Any]) -> None:
        self._tokenizer = tokenizer
        self._variables = dict(variables)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_tokenizer" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._tokenizer, name)

    def apply_chat_template(
        self, conversation: Sequence[Any], tools: list[Any] | None = None, **options: Any
    ) -> Any:
        """Render a conversation, or several, as text or tokens, with the variables."""
        return self._tokenizer.apply_chat_template(
            [*conversation], tools=tools, **{**self._variables, **options}
        )


def described(
    schemas: Sequence[Mapping[str, Any]], descriptions: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the schemas with new descriptions, for the tools that have one.

    Args:
        schemas: schemas in the form of OpenAI's API.
        descriptions: descriptions by the names of tools.

    Raises:
        InputError: the tool of a description does not exist.
    """
    if not descriptions:
        return [dict(schema) for schema in schemas]
    names = [str(schema["function"]["name"]) for schema in schemas]
    unknown = [name for name in descriptions if name not in names]
    if unknown:
        raise InputError(
            f"the tools {', '.join(unknown)} are described; required: tools of the task, "
            f"{', '.join(names) or 'which has none'}; correct the names of the components"
        )
    return [
        {**schema, "function": {**schema["function"], "description": descriptions[name]}}
        if name in descriptions
        else dict(schema)
        for name, schema in zip(names, schemas, strict=True)
    ]


class TextTokenizer:
    """Substitute for an unknown tokenizer of a policy: tokens are words, or parts of them.

    Messages and tools are kept as JSON, so that they can be read back; limits in tokens apply
    roughly.

    >>> tokenizer = TextTokenizer()
    >>> tokenizer.decode(tokenizer.encode("Who? Ada!", add_special_tokens=False), False)
    'Who? Ada!'
    """

    eos_token = END
    eos_token_id: int | None = None
    chat_template = "JSON"

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._texts: list[str] = []

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Return a number for each word, mark and run of spaces, without special tokens."""
        ids = []
        for piece in re.findall(r"\s?\w{1,6}|\s?[^\w\s]|\s+", text):
            if piece not in self._ids:
                self._ids[piece] = len(self._texts)
                self._texts.append(piece)
            ids.append(self._ids[piece])
        return ids

    def decode(self, token_ids: list[int], skip_special_tokens: bool) -> str:
        """Return the encoded text."""
        return "".join(self._texts[token] for token in token_ids)

    def apply_chat_template(
        self,
        conversation: list[dict[str, Any]],
        tools: list[Any] | None,
        *,
        add_generation_prompt: bool,
        tokenize: bool,
    ) -> str:
        """Return messages and tools as JSON, and the calls of final results as text."""
        start = next(
            (at for at, message in enumerate(conversation) if message.get("tool_calls")),
            len(conversation),
        )
        if not conversation or conversation[-1]["role"] == "user":
            start = len(conversation)  # calls of an example in the prompt stay messages
        head = conversation[:start]
        text = json.dumps({"messages": head, "tools": tools} if tools else head)
        if start == len(conversation):
            return text
        results: list[str] = []
        for message in conversation[start:]:
            if message["role"] == "tool":
                results.append(message["content"])
                continue
            functions = [call["function"] for call in message["tool_calls"]]
            calls = [(function["name"], function["arguments"]) for function in functions]
            text += written_action(message["content"], calls)
        return text + (written_results(results) if results else END)


_SCALED = ("yarn", "linear", "dynamic")
"""Kinds of rotary positions that stretch those the model was trained with, by a factor."""

_STATED_IN_FULL = "gemma3"
"""Models of these types state their positions as they are after scaling: 131,072 of Gemma 3."""


def positions_of(config: Any) -> int | None:
    """Return how many positions a model takes; None where its configuration does not say.

    YaRN, linear and dynamic scaling keep the positions of the first training in
    ``max_position_embeddings`` and take ``factor`` times as many; Gemma 3 states the product.

    Args:
        config: of the model in transformers, its part for text.
    """
    stated: int | None = getattr(config, "max_position_embeddings", None)
    if stated is None or str(getattr(config, "model_type", "")).startswith(_STATED_IN_FULL):
        return stated
    scaling = (
        getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    )
    parts = [scaling, *scaling.values()] if isinstance(scaling, Mapping) else []
    limits = [stated]
    for part in parts:  # of each kind of layer, where these differ
        if isinstance(part, Mapping) and part.get("rope_type", part.get("type")) in _SCALED:
            first = part.get("original_max_position_embeddings") or stated
            limits.append(int(first * float(part.get("factor") or 1.0)))
    return max(limits)
