"""Policies behind a server of OpenAI's protocol, sampled for many episodes at the same time.

:class:`TokenEndpoint` sends the exact tokens of the episode to ``/completions`` and receives the
sampled tokens, so that the evaluated policy is the trained one. It requires a server that supports
``return_token_ids``, such as vLLM. :class:`ChatEndpoint` works with all other servers: actions
become messages of the assistant, tool calls and their results become those of the protocol, and
other observations become messages of the user. A policy that was trained here has never seen such
messages.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, JsonValue, model_validator

from evoprompt.agents.agent import EpisodeSteps, Sample, Sampling
from evoprompt.agents.conversation import (
    UNNAMED,
    read_arguments,
    read_results,
    written_action,
)
from evoprompt.agents.drivers import play_one
from evoprompt.agents.episode import Action, Broken, Episode, Result
from evoprompt.agents.messages import read_calls, read_content, read_thought
from evoprompt.agents.protocol import ToolCall
from evoprompt.agents.server import ModelServer, ServerResponse
from evoprompt.agents.thoughts import Marks
from evoprompt.agents.tokenizer import TextTokenizer
from evoprompt.lm.outcomes import (
    ExchangeOutcome,
    FinishedExchange,
    decide_outcome,
    read_finish_reason,
)
from evoprompt.support.credentials import masked
from evoprompt.support.errors import warn


def _text_or_none(value: object) -> str | None:
    """Return a name or an id of a server, a text or a number, as text; None for other values."""
    return str(value) if isinstance(value, str | int) else None


class _Function(BaseModel, extra="allow"):
    name: Annotated[str, BeforeValidator(lambda name: _text_or_none(name) or "")] = ""
    arguments: JsonValue = None


class _ToolCall(BaseModel, extra="allow"):
    function: Annotated[
        _Function, BeforeValidator(lambda value: value if isinstance(value, dict) else {})
    ] = Field(default_factory=_Function)
    id: Annotated[str | None, BeforeValidator(_text_or_none)] = None
    type: JsonValue = "function"


class _Message(BaseModel, extra="allow"):
    """Message of a server; the next request repeats its further fields, too."""

    content: JsonValue = None
    refusal: JsonValue = None
    tool_calls: list[_ToolCall] = Field(default_factory=list)
    reasoning_content: JsonValue = None
    reasoning: JsonValue = None

    @model_validator(mode="before")
    @classmethod
    def _normalize_calls(cls, message: object) -> object:
        """Return the message with all of its calls in the field ``tool_calls``."""
        if not isinstance(message, dict):
            return message
        fields = {name: value for name, value in message.items() if name != "function_call"}
        return {**fields, "tool_calls": read_calls(message)}

    @property
    def text(self) -> str:
        """Return the text for the user."""
        return read_content(self.model_dump(include={"content", "refusal"}))

    @property
    def thought(self) -> str:
        """Return the thought, as far as the server separated it."""
        return read_thought(self.model_dump(exclude={"tool_calls"}))

    def build_reply(self, calls: Sequence[_ToolCall], text: str, turn: int) -> dict[str, Any]:
        """Return the message for the next request, without the fields that servers refuse.

        Args:
            calls: of existing tools. With calls some servers require the thought in the request;
                without calls some refuse it.
            text: the part of the content that counts.
            turn: number of the message, for calls that came without an id.
        """
        fields = self.model_dump(exclude={"tool_calls", "refusal"})
        # An empty thought is sent, too: DeepSeek refuses a call without the field.
        fields = {
            name: value
            for name, value in fields.items()
            if value not in (None, [], "") or (value == "" and name.startswith("reasoning"))
        }
        if not calls:
            fields = {
                name: value for name, value in fields.items() if not name.startswith("reasoning")
            }
            return {**fields, "role": "assistant", "content": text}
        ids = [call.id for call in calls]
        tool_calls = []
        for number, call in enumerate(calls):
            function = call.function.model_dump()
            function["arguments"] = _write_object(call.function.arguments)
            function["name"] = function["name"] or UNNAMED
            is_id_unique = bool(call.id) and ids.count(call.id) == 1
            call_id = call.id if is_id_unique else f"t{turn % 10_000:04d}{number % 10_000:04d}"
            tool_calls.append(
                {**call.model_dump(), "id": call_id, "type": "function", "function": function}
            )
        return {"content": None, **fields, "role": "assistant", "tool_calls": tool_calls}


class _ChatChoice(BaseModel):
    message: _Message
    finish_reason: Annotated[str | None, BeforeValidator(read_finish_reason)] = None
    error: JsonValue = None


class _Logprobs(BaseModel):
    token_logprobs: list[float] | None = None


class _TokenChoice(BaseModel):
    token_ids: list[int] | None = None
    logprobs: _Logprobs | None = None


class TokenEndpoint(ModelServer[_TokenChoice]):
    """Policy sampled with the token stream of the episode, by ``/completions``."""

    path = "/completions"
    answered = ServerResponse[_TokenChoice]

    def __call__(
        self, episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool
    ) -> list[Action | Broken]:
        """Return one action per episode, with the sampled tokens."""
        shared: dict[str, JsonValue] = {
            # Without these fields servers use the model's own generation_config.json.
            "repetition_penalty": 1.0,
            "top_p": 1.0,
            "top_k": -1,
            **self._body(sampling, greedy=greedy),
            "include_stop_str_in_output": True,
            "return_token_ids": True,
            "logprobs": 1,
        }
        bodies: list[dict[str, JsonValue]] = [
            {**shared, "prompt": [*episode.context]} for episode in episodes
        ]
        choices = self._choices(bodies)
        return [
            choice if isinstance(choice, Broken) else self._action(choice) for choice in choices
        ]

    def _action(self, choice: _TokenChoice) -> Action | Broken:
        if not choice.token_ids:
            return Broken(
                f"the endpoint {masked(self._base)} returned no token ids; required: a server that "
                "knows return_token_ids, such as vLLM 0.10.2; or ask in chat messages"
            )
        logprobs = choice.logprobs.token_logprobs if choice.logprobs else None
        is_complete = logprobs is not None and len(logprobs) == len(choice.token_ids)
        return Action(choice.token_ids, logprobs if is_complete else None)


class ChatEndpoint(ModelServer[_ChatChoice]):
    """Policy sampled in chat messages, by ``/chat/completions``; episodes begin with messages.

    The tools of a prompt are passed as schemas. Calls are read strictly, several at a time if the
    model makes them; if the arguments of a call are no JSON object, its result reports that.

    Attributes:
        tokenizer: of the agents whose episodes are sampled.
    """

    path = "/chat/completions"
    answered = ServerResponse[_ChatChoice]
    tokenizer = TextTokenizer()
    _warned_of_cut = False

    def __call__(
        self, episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool
    ) -> list[Action | Broken]:
        """Return one action per episode, as the tokens of ``tokenizer``."""
        bodies = [self._request(episode, sampling, greedy=greedy) for episode in episodes]
        requests = [body for body in bodies if not isinstance(body, Broken)]
        choices = iter(self._choices(requests))
        return [
            body if isinstance(body, Broken) else self._action(next(choices), body, sampling.stop)
            for body in bodies
        ]

    async def play(
        self, play: EpisodeSteps, call: Callable[[ToolCall], Awaitable[Result]], *, greedy: bool
    ) -> Episode:
        """Play one episode, while further episodes run in the same event loop.

        Args:
            play: from ``Agent.play``, of an agent with this ``tokenizer``.
            call: calls a tool.
            greedy: take the most likely tokens instead of drawing them.

        Raises:
            BudgetError: the budget does not leave enough for a request.
            LmError: the server gave no answer.
            Exception: any exception of ``call``.
        """
        async with self._client() as client:

            async def sample(request: Sample) -> Action | Broken:
                body = self._request(request.episode, request.sampling, greedy=greedy)
                if isinstance(body, Broken):
                    return body
                choice = await self._ask(client, body)
                return self._action(choice, body, request.sampling.stop)

            return await play_one(play, sample, call)

    def _request(
        self, episode: Episode, sampling: Sampling, *, greedy: bool
    ) -> dict[str, JsonValue] | Broken:
        head: list[JsonValue] | dict[str, JsonValue] = json.loads(
            self.tokenizer.decode(episode.prompt_ids, skip_special_tokens=True)
        )
        tools = head["tools"] if isinstance(head, dict) else None
        prompt_messages = head["messages"] if isinstance(head, dict) else head
        assert isinstance(prompt_messages, list)
        messages = [*prompt_messages]
        for turn, message in zip(episode.turns, episode.messages, strict=True):
            if message == {}:  # the prompt has its text already
                continue
            messages += [{**message}] if message else _text_messages("assistant", turn.action)
            calls = message.get("tool_calls") if message and tools is not None else None
            if not calls:
                messages += _text_messages("user", turn.observation.strip())
                continue
            results = read_results(turn.observation, len(calls))
            if len(results) != len(calls):
                return Broken(
                    "a tool returned a text that cannot be distinguished from the results of "
                    f"several calls: {turn.observation[:200]!r}; required: tools that do not write "
                    "such marks"
                )
            for call, result in zip(calls, results, strict=True):
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        body = {**self._body(sampling, greedy=greedy), "messages": messages}
        return body if tools is None else {**body, "tools": tools}

    def _warn_of_cut(self, limit: str) -> None:
        if not self._warned_of_cut:
            self._warned_of_cut = True
            warn(
                f"{self._model} was cut at its limit of tokens ({limit}), and is judged by the "
                "text before the cut; such answers are common if the limit is low: raise it",
            )

    def _action(
        self, choice: _ChatChoice | Broken, body: Mapping[str, JsonValue], stop: Sequence[str]
    ) -> Action | Broken:
        if isinstance(choice, Broken):
            return choice
        message, finish_reason = choice.message, choice.finish_reason
        has_tools = "tools" in body
        calls = message.tool_calls if has_tools else []
        parted = Marks().part(message.text)
        thought, text = message.thought or parted.thought, parted.remainder
        is_silent = not (text or calls)
        exchange = FinishedExchange(
            finish_reason=finish_reason,
            error=f"its choice reports an error: {choice.error!r:.200}" if choice.error else "",
            has_content=not is_silent,
            has_thought=bool(thought),
        )
        outcome, reason = decide_outcome(exchange)
        if outcome is not ExchangeOutcome.ANSWERED:
            return Broken(
                f"{self._where}: {masked(reason)}; required: a text or a call; see its filter, or "
                f"raise the limit of tokens of an answer ({_limit_of(body)})"
            )
        if finish_reason == "length" and text:
            self._warn_of_cut(_limit_of(body))
        # A text cut at the limit of tokens is no closed call or answer, as in training.
        text = text if finish_reason == "length" else with_stop(text, stop)
        messages = body["messages"]
        assert isinstance(messages, list)
        reply = message.build_reply(calls, text, len(messages))
        if thought or has_tools:
            named_calls = [(call.function.name, call.function.arguments) for call in calls]
            is_cut = is_silent and finish_reason == "length"
            text = written_action(text, named_calls, thought, cut=is_cut)
        return Action(self.tokenizer.encode(text, add_special_tokens=False), message=reply)


def _text_messages(role: str, text: str) -> list[JsonValue]:
    """Return the message of a text in a list; an empty list for an empty text."""
    return [{"role": role, "content": text}] if text else []


def _write_object(arguments: JsonValue) -> str:
    """Return arguments as the text of a JSON object, which templates of servers require."""
    if not arguments:
        return "{}"
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    with suppress(ValueError, RecursionError):
        if isinstance(read_arguments(text), dict):
            return text
    return json.dumps({"unreadable": text})


def _limit_of(body: Mapping[str, JsonValue]) -> str:
    names = ("max_completion_tokens", "max_tokens")
    return next((f"{name}={body[name]}" for name in names if name in body), "the server's own")


def with_stop(text: str, stop: Sequence[str]) -> str:
    """Return the text with the closing tag at which the server stopped; servers omit the tag.

    >>> with_stop("<look> left", ["</look>", "</say>"])
    '<look> left</look>'
    """
    starts = {tag: text.rfind(tag.replace("</", "<", 1)) for tag in stop}
    open_tags = [tag for tag, position in starts.items() if position > text.rfind(tag)]
    return text + max(open_tags, key=starts.__getitem__) if open_tags else text
