"""Policies behind a server of OpenAI's protocol, asked for many episodes at the same time.

:class:`TokenEndpoint` sends the very tokens of the episode to ``/completions`` and is sent the
tokens that were sampled, so that what is evaluated is what was trained. It takes a server that
knows ``return_token_ids``, as vLLM and SGLang do. :class:`ChatEndpoint` is the way to ask all
others: actions become messages of the assistant and observations messages of the user, which a
policy that was trained here has never seen.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, Field, JsonValue, ValidationError
from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from evoprompt.agents.agent import Sampling
from evoprompt.agents.episode import Action, Broken, Episode, split
from evoprompt.agents.tokenizer import TextTokenizer
from evoprompt.errors import EvopromptError
from evoprompt.text import masked

KEY = "OPENAI_API_KEY"
"""Environment variable that holds the key; a server without keys needs none."""

_TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})


class _EndpointError(EvopromptError, RuntimeError):
    """The server gave no action."""


class _TransientError(_EndpointError):
    """Worth another attempt."""


class _Message(BaseModel):
    content: str | None


class _Spoken(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Logprobs(BaseModel):
    token_logprobs: list[float] | None = None


class _Tokens(BaseModel):
    token_ids: list[int] | None = None
    logprobs: _Logprobs | None = None


ChoiceT = TypeVar("ChoiceT", bound=BaseModel)


class _Answer(BaseModel, Generic[ChoiceT]):
    choices: list[ChoiceT] = Field(min_length=1)


def headers() -> dict[str, str]:
    """What authorises a request."""
    key = os.environ.get(KEY, "")
    return {"Authorization": f"Bearer {key}"} if key else {}


class _Endpoint:
    """A model on a server.

    Args:
        model: as the server names it.
        base_url: of the server, such as ``http://127.0.0.1:8000/v1``.
        temperature: of sampling, where it is not greedy.
        connections: requests at a time.
        timeout: longest silence of the server, in seconds.
        attempts: how often to try after rate limits, server and network errors, at least 1.
        pause: longest pause before the second attempt, in seconds; it doubles from then on.
    """

    def __init__(
        self,
        model: str,
        base_url: str,
        *,
        temperature: float = 1.0,
        connections: int = 64,
        timeout: float = 300.0,
        attempts: int = 5,
        pause: float = 1.0,
    ) -> None:
        self._model = model
        self._base = base_url.rstrip("/")
        self._temperature = temperature
        self._connections = connections
        self._timeout = timeout
        self._attempts, self._pause = attempts, pause

    def _body(self, sampling: Sampling, *, greedy: bool) -> dict[str, JsonValue]:
        return {
            "model": self._model,
            "max_tokens": sampling.max_tokens,
            "temperature": 0.0 if greedy else self._temperature,
            "stop": list(sampling.stop) or None,
        }

    def _choices(
        self, path: str, bodies: Sequence[Mapping[str, JsonValue]], form: type[_Answer[ChoiceT]]
    ) -> list[ChoiceT | Broken]:
        """The first choice for each body; ``Broken`` where the server gave none."""

        async def ask() -> list[ChoiceT | Broken]:
            # Waiting for a free connection is not silence of the server.
            timeout = httpx.Timeout(self._timeout, pool=None)
            limits = httpx.Limits(max_connections=self._connections)
            async with httpx.AsyncClient(headers=headers(), timeout=timeout, limits=limits) as http:
                asking = [self._ask(http, f"{self._base}{path}", body, form) for body in bodies]
                return list(await asyncio.gather(*asking))

        return asyncio.run(ask())

    async def _ask(
        self,
        http: httpx.AsyncClient,
        url: str,
        body: Mapping[str, JsonValue],
        form: type[_Answer[ChoiceT]],
    ) -> ChoiceT | Broken:
        retrying = AsyncRetrying(
            stop=stop_after_attempt(self._attempts),
            wait=wait_random_exponential(self._pause, max=60),
            retry=retry_if_exception_type(_TransientError),
            reraise=True,
        )
        try:
            found: ChoiceT = await retrying(self._ask_once, http, url, body, form)
        except _EndpointError as error:
            return Broken(str(error))
        return found

    async def _ask_once(
        self,
        http: httpx.AsyncClient,
        url: str,
        body: Mapping[str, JsonValue],
        form: type[_Answer[ChoiceT]],
    ) -> ChoiceT:
        try:
            _ = urlsplit(url).port  # httpx lets ports through that there are none of
            response = await http.post(url, json=body)
        except (ValueError, httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise _EndpointError(f"the endpoint {masked(url)} is no address ({error})") from error
        except httpx.HTTPError as error:
            what = f"does not answer ({error or type(error).__name__})"
            raise self._transient(url, what) from error
        status, said = response.status_code, masked(response.text[:200])
        if status in _TRANSIENT_STATUSES or status >= 500:
            raise self._transient(url, f"answered {status}: {said}")
        if status != 200:
            raise _EndpointError(
                f"the endpoint {masked(url)} refused the request with {status}: {said}; check the "
                f"model's name and {KEY}"
            )
        try:
            return form.model_validate_json(response.content).choices[0]
        except ValidationError as error:
            raise self._transient(url, f"answered garbage: {said[:100]!r}") from error

    def _transient(self, url: str, what: str) -> _TransientError:
        return _TransientError(
            f"the endpoint {masked(url)} {what}, tried {self._attempts} times; required: a server "
            "of OpenAI's protocol; start it, or check the address"
        )


class TokenEndpoint(_Endpoint):
    """Samples with the token stream of the episode, by ``/completions``."""

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
        found = self._choices("/completions", bodies, _Answer[_Tokens])
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


class ChatEndpoint(_Endpoint):
    """Samples in chat messages, by ``/chat/completions``; episodes begin with messages.

    Attributes:
        tokenizer: of the agents that it samples for.
    """

    tokenizer = TextTokenizer()

    def __call__(
        self, episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool
    ) -> list[Action | Broken]:
        """One action per episode, as the tokens of ``tokenizer``."""
        shared = self._body(sampling, greedy=greedy)
        bodies = [{**shared, "messages": self._messages(episode)} for episode in episodes]
        found = self._choices("/chat/completions", bodies, _Answer[_Spoken])
        return [
            one if isinstance(one, Broken) else self._action(one, sampling.stop) for one in found
        ]

    def _messages(self, episode: Episode) -> list[JsonValue]:
        messages: list[JsonValue] = json.loads(self._text(episode.prompt_ids))
        for said, shown in split(episode.completion_ids, episode.policy_mask):
            if said:
                messages.append({"role": "assistant", "content": self._text(said)})
            if shown:
                messages.append({"role": "user", "content": self._text(shown).strip()})
        return messages

    def _text(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=True)

    def _action(self, choice: _Spoken, stop: Sequence[str]) -> Action:
        text = choice.message.content or ""
        # What was cut at the limit of tokens is no closed call or answer, as in training.
        whole = text if choice.finish_reason == "length" else with_stop(text, stop)
        return Action(self.tokenizer.encode(whole, add_special_tokens=False))


def with_stop(text: str, stop: Sequence[str]) -> str:
    """The text with the closing tag at which the server stopped, which servers leave out.

    >>> with_stop("<look> left", ["</look>", "</say>"])
    '<look> left</look>'
    """
    opened = {tag: text.rfind(tag.replace("</", "<", 1)) for tag in stop}
    left = [tag for tag, at in opened.items() if at > text.rfind(tag)]
    return text + max(left, key=opened.__getitem__) if left else text
