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
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence

from pydantic import BaseModel, ConfigDict, JsonValue

from evoprompt.agents.agent import EpisodeSteps, Sample, Sampling
from evoprompt.agents.conversation import CallMade, messages_of, thought_apart, written_action
from evoprompt.agents.drivers import play_one
from evoprompt.agents.episode import Action, Broken, Episode, Result, split
from evoprompt.agents.protocol import Call
from evoprompt.agents.server import KEY as KEY
from evoprompt.agents.server import Answered, Server
from evoprompt.agents.tokenizer import TextTokenizer
from evoprompt.errors import EvopromptWarning
from evoprompt.text import masked


class _Function(BaseModel):
    name: str
    arguments: str | dict[str, JsonValue] | None = None


class _ToolCall(BaseModel):
    model_config = ConfigDict(extra="allow")

    function: _Function
    id: str | None = None

    @property
    def made(self) -> CallMade:
        """The call with what goes back beside it."""
        beside = {**(self.model_extra or {}), **({"id": self.id} if self.id else {})}
        for name in ("type", "index"):
            beside.pop(name, None)
        return CallMade(self.function.name, self.function.arguments, beside)


class _Part(BaseModel):
    type: str = "text"
    text: str = ""
    thinking: str | list[_Part] = ""

    @property
    def thought(self) -> str:
        """What it holds of a thought."""
        if isinstance(self.thinking, str):
            return self.thinking
        return "".join(part.text for part in self.thinking)


class _Message(BaseModel):
    content: str | list[_Part] | None = None
    refusal: str | None = None
    tool_calls: list[_ToolCall] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None

    @property
    def said(self) -> str:
        """The text, which some servers send in parts."""
        content = self.content
        if isinstance(content, list):
            content = "".join(part.text for part in content)
        return content or self.refusal or ""

    @property
    def thought(self) -> str:
        """What was thought before it, where the server tells it apart."""
        parts = self.content if isinstance(self.content, list) else []
        apart = "".join(part.thought for part in parts)
        return self.reasoning_content or self.reasoning or apart


class _Spoken(BaseModel):
    message: _Message
    finish_reason: str | None = None


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
            **self._body(sampling, greedy=greedy),
            "include_stop_str_in_output": True,
            "return_token_ids": True,
            "logprobs": 1,
            # Else servers take what the model's own generation_config.json says.
            "repetition_penalty": 1.0,
            "top_p": 1.0,
            "top_k": -1,
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
    the model makes them; one whose arguments are no JSON object makes its action malformed.

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
        head: list[JsonValue] | dict[str, JsonValue] = json.loads(self._text(episode.prompt_ids))
        tools = head["tools"] if isinstance(head, dict) else None
        given = head["messages"] if isinstance(head, dict) else head
        assert isinstance(given, list)
        messages = [*given]
        for turn, (said, shown) in enumerate(split(episode.completion_ids, episode.policy_mask)):
            action, observation = self._text(said), self._text(shown)
            if tools is None:
                if said:
                    messages.append({"role": "assistant", "content": thought_apart(action)[1]})
                if shown:
                    messages.append({"role": "user", "content": observation.strip()})
                continue
            found = messages_of(action, observation, turn)
            if found is None:
                return Broken(
                    "a tool returned a text that cannot be told from the results of several calls: "
                    f"{observation[:200]!r}; required: tools that do not write such marks"
                )
            messages += found
        body = {**self._body(sampling, greedy=greedy), "messages": messages}
        return body if tools is None else {**body, "tools": tools}

    def _warn_of_cut(self, limit: str) -> None:
        if not self._warned_of_cut:
            self._warned_of_cut = True
            warnings.warn(
                f"{self._model} was cut at its limit of tokens ({limit}), and is judged by what it "
                "had said; such answers are common if the limit is low: raise it",
                EvopromptWarning,
                stacklevel=2,
            )

    def _text(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=True)

    def _action(
        self, choice: _Spoken | Broken, body: Mapping[str, JsonValue], stop: Sequence[str]
    ) -> Action | Broken:
        if isinstance(choice, Broken):
            return choice
        message, ended = choice.message, choice.finish_reason
        text, thought = message.said, message.thought
        calls = [one.made for one in message.tool_calls or ()] if "tools" in body else []
        silent = not (text or calls)
        if silent and (ended == "content_filter" or (ended == "length" and not thought)):
            return Broken(
                f"{self._where} answered nothing (finish_reason {ended}); required: a text or a "
                "call; see its filter, or raise the limit of tokens of an answer "
                f"({_limit_of(body)})"
            )
        if ended == "length" and text:
            self._warn_of_cut(_limit_of(body))
        if thought or "tools" in body:
            text = written_action(text, calls, thought, cut=silent and ended == "length")
        # What was cut at the limit of tokens is no closed call or answer, as in training.
        whole = text if ended == "length" else with_stop(text, stop)
        return Action(self.tokenizer.encode(whole, add_special_tokens=False))


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
