"""Puts an instruction into environments, by the two public ways that the cookbook has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from tinker_cookbook.rl.message_env import EnvFromMessageEnv
from tinker_cookbook.rl.problem_env import ProblemEnv

from evoprompt.engine import Engine
from evoprompt.hosting.prompts import SYSTEM_ROLES, Message, Render, marked_prompt
from evoprompt.hosting.rows import ASKED_BY_ENVIRONMENT, text_of
from evoprompt.support.errors import AttachError, InputError
from evoprompt.support.text import words_of
from evoprompt.types import Candidate, TaskContext, TextLimits
from evoprompt_tinker.host import HostPrompt, HostTokenizer

_CONTINUED = ("observe_truncated_response", "add_messages")
"""Further methods of a ``MessageEnv`` that return a whole conversation, or None."""

_OWN_PREFIX = "evoprompt_own_prefix"
"""Attribute of a ``ProblemEnv``: its messages without an instruction."""

ASKED = "evoprompt_asked"
"""Attribute of such an environment: what it asked, once it was rolled out."""


def question_of(env: Any) -> str:
    """Return the question of ``env``, without any instruction.

    Raises:
        AttachError: the environment writes its prompts itself, in tokens.
    """
    if isinstance(env, ProblemEnv):
        return str(env.get_question()).strip() or ASKED_BY_ENVIRONMENT
    if isinstance(env, EnvFromMessageEnv):
        return ASKED_BY_ENVIRONMENT  # asking it twice might not be the same as asking once
    raise AttachError(
        f"{type(env).__name__} writes its prompts itself, in tokens, so that no instruction can be "
        "placed in them; required: a ProblemEnv, or an EnvFromMessageEnv around a MessageEnv; make "
        "the environment one of these"
    )


def setting_of(env: Any, render: Render) -> TaskContext:
    """Return the context of ``env`` for a proposer, before an instruction is placed in it."""
    if not isinstance(env, ProblemEnv):
        return TaskContext(reward=words_of(type(env.message_env)))
    question = {"role": "user", "content": env.get_question()}
    prompt = marked_prompt([*env.convo_prefix, question], render)
    return TaskContext(prompt, reward=words_of(type(env).check_answer))


def place(env: Any, candidate: Candidate, render: Render) -> None:
    """Place the instruction of ``candidate`` in ``env``; call it once, before the rollout.

    Raises:
        InputError: ``render`` changes the question, which a ``ProblemEnv`` scores by.
    """
    if isinstance(env, EnvFromMessageEnv):
        _place_in_messages(env, candidate, render)
        return
    question = {"role": "user", "content": env.get_question()}
    rendered = _conversation(render([*env.convo_prefix, question], candidate))
    if rendered[-1] != question:
        raise InputError(
            f"the render function puts the instruction into the question of a "
            f"{type(env).__name__}, which scores by it; required: the question as it is, and the "
            "instruction before it; use evoprompt.hosting.prompts.system_message, or a function "
            "that adds messages of its own"
        )
    setattr(env, _OWN_PREFIX, env.convo_prefix)
    env.convo_prefix = rendered[:-1]


def restore_prefix(env: Any) -> None:
    """Give a ``ProblemEnv`` its own messages again, for what scores its group."""
    if hasattr(env, _OWN_PREFIX):
        env.convo_prefix = getattr(env, _OWN_PREFIX)


def _place_in_messages(env: Any, candidate: Candidate, render: Render) -> None:
    """Place the instruction in every conversation that ``env`` makes from its messages."""
    inner = env.message_env
    first, step = inner.initial_observation, inner.step

    def render_conversation(conversation: Sequence[Message]) -> list[Message]:
        return _conversation(render(conversation, candidate))

    async def initial_observation() -> list[Message]:
        conversation: Sequence[Message] = await first()
        messages = [message for message in conversation if message.get("role") not in SYSTEM_ROLES]
        setattr(env, ASKED, "\n\n".join(text_of(message.get("content")) for message in messages))
        return render_conversation(conversation)

    async def stepped(message: Message) -> Any:
        result = await step(message)
        result.next_messages = render_conversation(result.next_messages)
        return result

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        async def continued(messages: Any) -> list[Message] | None:
            conversation = await original(messages)
            return None if conversation is None else render_conversation(conversation)

        return continued

    inner.initial_observation, inner.step = initial_observation, stepped
    for name in _CONTINUED:
        setattr(inner, name, around(getattr(inner, name)))


def _conversation(rendered: object) -> list[Message]:
    if isinstance(rendered, str) or not isinstance(rendered, Sequence):
        raise InputError(
            f"the render function made a {type(rendered).__name__} of a conversation; required: a "
            "list of messages; use one of evoprompt.hosting.prompts"
        )
    return [dict(message) for message in rendered]


def limits(tokenizer: HostTokenizer, engine: Engine) -> TextLimits:
    """Return the limits for screening; the server limits the length of prompts.

    Special tokens are forbidden, but for those that an instruction holds already.
    """
    members = [candidate.text for candidate in engine.population.members]
    special = tokenizer.all_special_tokens
    return TextLimits(
        count_tokens=lru_cache(4096)(
            lambda text: len(tokenizer.encode(text, add_special_tokens=False))
        ),
        control_tokens=[token for token in special if not any(token in text for text in members)],
    )


def holds(tokenizer: HostTokenizer, prompt: HostPrompt, candidate: Candidate) -> bool:
    """Return whether the prompt of the policy held the instruction of ``candidate``.

    Texts are compared as the tokenizer gives them back, without white space: renderers trim.
    """
    tokens = [token for chunk in prompt.chunks for token in getattr(chunk, "tokens", ())]
    instruction_tokens = tokenizer.encode(candidate.instruction, add_special_tokens=False)
    return _read(tokenizer, instruction_tokens) in _read(tokenizer, tokens)


def _read(tokenizer: HostTokenizer, tokens: list[int]) -> str:
    return "".join(tokenizer.decode(tokens).split())
