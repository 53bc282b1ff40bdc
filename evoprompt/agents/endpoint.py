"""Policies behind a server of OpenAI's protocol, asked for many episodes at the same time.

:class:`TokenEndpoint` sends the very tokens of the episode to ``/completions`` and is sent the
tokens that were sampled, so that what is evaluated is what was trained. It takes a server that
knows ``return_token_ids``, as vLLM does. :class:`ChatEndpoint` is the way to ask all
others: actions become messages of the assistant, calls of tools and their results those of the
protocol, and other observations messages of the user, which a policy that was trained here has
never seen.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator

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
from evoprompt.agents.protocol import Call
from evoprompt.agents.server import KEY as KEY
from evoprompt.agents.server import Answered, Server
from evoprompt.agents.thoughts import Marks
from evoprompt.agents.tokenizer import TextTokenizer
from evoprompt.lm.outcomes import Exchange, ExchangeOutcome, decide_outcome, read_finish_reason
from evoprompt.support.errors import warn
from evoprompt.support.text import masked


def _text_or_none(given: object) -> str | None:
    """A name or an id as a server may give it: a text, a number, or what is none."""
    return str(given) if isinstance(given, str | int) else None


class _Function(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: Annotated[str, BeforeValidator(lambda given: _text_or_none(given) or "")] = ""
    arguments: JsonValue = None


class _ToolCall(BaseModel):
    model_config = ConfigDict(extra="allow")

    function: Annotated[
        _Function, BeforeValidator(lambda given: given if isinstance(given, dict) else {})
    ] = Field(default_factory=_Function)
    id: Annotated[str | None, BeforeValidator(_text_or_none)] = None
    type: JsonValue = "function"


class _Message(BaseModel):
    """What a server says; whatever else it holds goes back with it."""

    model_config = ConfigDict(extra="allow")

    content: JsonValue = None
    refusal: JsonValue = None
    tool_calls: list[_ToolCall] = Field(default_factory=list)
    reasoning_content: JsonValue = None
    reasoning: JsonValue = None

    @model_validator(mode="before")
    @classmethod
    def _with_calls(cls, given: object) -> object:
        """Return the message with all of its calls as those of tools."""
        if not isinstance(given, dict):
            return given
        own = {name: value for name, value in given.items() if name != "function_call"}
        return {**own, "tool_calls": read_calls(given)}

    @property
    def text(self) -> str:
        """What it says to the user."""
        return read_content(self.model_dump(include={"content", "refusal"}))

    @property
    def thought(self) -> str:
        """What the server told apart as thought."""
        return read_thought(self.model_dump(exclude={"tool_calls"}))

    def sent_back(self, calls: Sequence[_ToolCall], text: str, turn: int) -> dict[str, Any]:
        """The message as the next request repeats it: as it came, but for what no server takes.

        Args:
            calls: of tools that there are. Beside them some servers want the thought back; without
                any, others refuse it.
            text: what counts of the content.
            turn: number of the message, for calls that came without an id.
        """
        came = self.model_dump(exclude={"tool_calls", "refusal"})
        # An empty thought goes back, too: DeepSeek refuses a call without the field.
        came = {
            name: value
            for name, value in came.items()
            if value not in (None, [], "") or (value == "" and name.startswith("reasoning"))
        }
        if not calls:
            kept = {name: came[name] for name in came if not name.startswith("reasoning")}
            return {**kept, "role": "assistant", "content": text}
        ids = [one.id for one in calls]
        made = []
        for number, call in enumerate(calls):
            function = call.function.model_dump()
            function["arguments"] = _an_object(call.function.arguments)
            function["name"] = function["name"] or UNNAMED
            known = call.id if call.id and ids.count(call.id) == 1 else None
            own = known or f"t{turn % 10_000:04d}{number % 10_000:04d}"
            made.append({**call.model_dump(), "id": own, "type": "function", "function": function})
        return {"content": None, **came, "role": "assistant", "tool_calls": made}


class _Spoken(BaseModel):
    message: _Message
    finish_reason: Annotated[str | None, BeforeValidator(read_finish_reason)] = None
    error: JsonValue = None


class _Logprobs(BaseModel):
    token_logprobs: list[float] | None = None


class _Tokens(BaseModel):
    token_ids: list[int] | None = None
    logprobs: _Logprobs | None = None


class TokenEndpoint(Server[_Tokens]):
    """Samples with the token stream of the episode, by ``/completions``."""

    path = "/completions"
    answered = Answered[_Tokens]

    def __call__(
        self, episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool
    ) -> list[Action | Broken]:
        """One action per episode, token by token as it was sampled."""
        shared: dict[str, JsonValue] = {
            # Else servers take what the model's own generation_config.json says.
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
        found = self._choices(bodies)
        return [one if isinstance(one, Broken) else self._action(one) for one in found]

    def _action(self, choice: _Tokens) -> Action | Broken:
        if not choice.token_ids:
            return Broken(
                f"the endpoint {masked(self._base)} returned no token ids; required: a server that "
                "knows return_token_ids, such as vLLM 0.10.2; or ask in chat messages"
            )
        logprobs = choice.logprobs.token_logprobs if choice.logprobs else None
        complete = logprobs is not None and len(logprobs) == len(choice.token_ids)
        return Action(choice.token_ids, logprobs if complete else None)


class ChatEndpoint(Server[_Spoken]):
    """Samples in chat messages, by ``/chat/completions``; episodes begin with messages.

    Tools that a prompt shows are passed as schemas. Calls are read strictly, several at a time if
    the model makes them; if its arguments are no JSON object, its result says so.

    Attributes:
        tokenizer: of the agents that it samples for.
    """

    path = "/chat/completions"
    answered = Answered[_Spoken]
    tokenizer = TextTokenizer()
    _warned_of_cut = False

    def __call__(
        self, episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool
    ) -> list[Action | Broken]:
        """One action per episode, as the tokens of ``tokenizer``."""
        bodies = [self._request(episode, sampling, greedy=greedy) for episode in episodes]
        asked = [body for body in bodies if not isinstance(body, Broken)]
        found = iter(self._choices(asked))
        return [
            body if isinstance(body, Broken) else self._action(next(found), body, sampling.stop)
            for body in bodies
        ]

    async def play(
        self, play: EpisodeSteps, call: Callable[[Call], Awaitable[Result]], *, greedy: bool
    ) -> Episode:
        """One episode, while others go on in the same event loop.

        Args:
            play: from ``Agent.play``, of an agent with this ``tokenizer``.
            call: calls a tool.
            greedy: take the most likely tokens, instead of drawing them.

        Raises:
            BudgetError: the budget does not leave enough for a request.
            LmError: the server gave no answer.
            Exception: whatever ``call`` raises.
        """
        async with self._client() as client:

            async def sample(wanted: Sample) -> Action | Broken:
                body = self._request(wanted.episode, wanted.sampling, greedy=greedy)
                if isinstance(body, Broken):
                    return body
                found = await self._ask(client, body)
                return self._action(found, body, wanted.sampling.stop)

            return await play_one(play, sample, call)

    def _request(
        self, episode: Episode, sampling: Sampling, *, greedy: bool
    ) -> dict[str, JsonValue] | Broken:
        head: list[JsonValue] | dict[str, JsonValue] = json.loads(
            self.tokenizer.decode(episode.prompt_ids, skip_special_tokens=True)
        )
        tools = head["tools"] if isinstance(head, dict) else None
        given = head["messages"] if isinstance(head, dict) else head
        assert isinstance(given, list)
        messages = [*given]
        for turn, message in zip(episode.turns, episode.messages, strict=True):
            messages += [{**message}] if message else _plain("assistant", turn.action)
            calls = message.get("tool_calls") if message and tools is not None else None
            if not calls:
                messages += _plain("user", turn.observation.strip())
                continue
            results = read_results(turn.observation, len(calls))
            if len(results) != len(calls):
                return Broken(
                    "a tool returned a text that cannot be told from the results of several calls: "
                    f"{turn.observation[:200]!r}; required: tools that do not write such marks"
                )
            for call, result in zip(calls, results, strict=True):
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        body = {**self._body(sampling, greedy=greedy), "messages": messages}
        return body if tools is None else {**body, "tools": tools}

    def _warn_of_cut(self, limit: str) -> None:
        if not self._warned_of_cut:
            self._warned_of_cut = True
            warn(
                f"{self._model} was cut at its limit of tokens ({limit}), and is judged by what it "
                "had said; such answers are common if the limit is low: raise it",
            )

    def _action(
        self, choice: _Spoken | Broken, body: Mapping[str, JsonValue], stop: Sequence[str]
    ) -> Action | Broken:
        if isinstance(choice, Broken):
            return choice
        message, tools, ended = choice.message, "tools" in body, choice.finish_reason
        calls = message.tool_calls if tools else []
        parted = Marks().part(message.text)
        thought, text = message.thought or parted.thought, parted.rest
        silent = not (text or calls)
        exchange = Exchange(
            finish_reason=ended,
            error=f"its choice tells of an error: {choice.error!r:.200}" if choice.error else "",
            has_content=not silent,
            has_thought=bool(thought),
        )
        outcome, reason = decide_outcome(exchange)
        if outcome is not ExchangeOutcome.ANSWERED:
            return Broken(
                f"{self._where}: {masked(reason)}; required: a text or a call; see its filter, or "
                f"raise the limit of tokens of an answer ({_limit_of(body)})"
            )
        if ended == "length" and text:
            self._warn_of_cut(_limit_of(body))
        # What was cut at the limit of tokens is no closed call or answer, as in training.
        text = text if ended == "length" else with_stop(text, stop)
        messages = body["messages"]
        assert isinstance(messages, list)
        back = message.sent_back(calls, text, len(messages))
        if thought or tools:
            made = [(one.function.name, one.function.arguments) for one in calls]
            cut = silent and ended == "length"
            text = written_action(text, made, thought, cut=cut)
        return Action(self.tokenizer.encode(text, add_special_tokens=False), message=back)


def _plain(role: str, text: str) -> list[JsonValue]:
    """A message of text, none without any."""
    return [{"role": role, "content": text}] if text else []


def _an_object(arguments: JsonValue) -> str:
    """Arguments as the text of a JSON object: servers whose templates read them take no other."""
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
    """The text with the closing tag at which the server stopped, which servers leave out.

    >>> with_stop("<look> left", ["</look>", "</say>"])
    '<look> left</look>'
    """
    opened = {tag: text.rfind(tag.replace("</", "<", 1)) for tag in stop}
    left = [tag for tag, at in opened.items() if at > text.rfind(tag)]
    return text + max(left, key=opened.__getitem__) if left else text
