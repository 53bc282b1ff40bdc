"""Requests to a server of OpenAI's protocol: retried, metered, and without what a model refuses."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import ssl
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
from evoprompt.agents.episode import Broken
from evoprompt.agents.loops import completed
from evoprompt.errors import EvopromptError, EvopromptWarning
from evoprompt.lm.budget import SpendTracker, charge_of
from evoprompt.lm.settings import BudgetSettings, Prices
from evoprompt.text import masked

KEY = "OPENAI_API_KEY"
"""Environment variable that holds the key; a server without keys needs none."""

THINKING_TOKENS = 16_000
"""Beyond the limit of an action, for models that think before they answer."""

TOKENS_AROUND = 256
"""Tokens of a request, at most, that are in none of its texts."""

_TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})
_UNUSABLE_STATUSES = frozenset({401, 403, 404})
_DISPENSABLE = ("max_tokens", "temperature", "stop")
"""Parameters that models which think refuse; agents can do without."""

_REACH_IT = "a server of OpenAI's protocol; start it, or check the address"
_ALLOW_IT = "a quota and a rate that allow it; wait, ask for fewer at a time, or see the account"


class EndpointError(EvopromptError, RuntimeError):
    """The server gave no action."""


class _TransientError(EndpointError):
    """Worth another attempt."""


class _Usage(BaseModel):
    prompt_tokens: int
    completion_tokens: int = 0


ChoiceT = TypeVar("ChoiceT", bound=BaseModel)


class Answered(BaseModel, Generic[ChoiceT]):
    """What a server answers; other fields are not looked at."""

    choices: list[ChoiceT] = Field(min_length=1)
    usage: _Usage | None = None


class _Refusal(BaseModel):
    param: str | None = None


class _Refused(BaseModel):
    error: _Refusal


@dataclass(frozen=True, slots=True)
class Spending:
    """What requests may cost.

    Attributes:
        tracker: counts it; may be shared, and keep a journal.
        budget: hard limits, checked before every request as if it cost the most it can.
        prices: of the model; None counts requests and tokens alone.
    """

    tracker: SpendTracker = field(default_factory=SpendTracker)
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    prices: Prices | None = None


class Server:
    """A model on a server.

    Args:
        model: as the server names it.
        base_url: of the server, such as ``http://127.0.0.1:8000/v1``.
        temperature: of sampling, where it is not greedy.
        connections: requests at a time.
        timeout: longest silence of the server, in seconds.
        attempts: how often to try after rate limits, server and network errors, at least 1.
        pause: longest pause before the second attempt, in seconds; it doubles from then on.
        key: environment variable that holds the key.
        spending: counts and limits what requests cost; nothing by default.

    Attributes:
        unusable: why no request can be answered: the first one has shown that the key, the model or
            the address is wrong. Empty otherwise.
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
        key: str = KEY,
        spending: Spending | None = None,
    ) -> None:
        self._model = model
        self._base = base_url.rstrip("/")
        self._temperature = temperature
        self._connections = connections
        self._timeout = timeout
        self._attempts, self._pause = attempts, pause
        self._key = key
        self._spending = spending
        self._refuses: set[str] = set()
        self._answered = False
        self.unusable = ""

    def _body(self, sampling: Sampling, *, greedy: bool) -> dict[str, JsonValue]:
        body: dict[str, JsonValue] = {
            "model": self._model,
            "max_tokens": sampling.max_tokens,
            "temperature": 0.0 if greedy else self._temperature,
        }
        return {**body, "stop": list(sampling.stop)} if sampling.stop else body

    def _client(self) -> httpx.AsyncClient:
        # Waiting for a free connection is not silence of the server.
        timeout = httpx.Timeout(self._timeout, pool=None)
        limits = httpx.Limits(max_connections=self._connections)
        return httpx.AsyncClient(
            headers=headers(self._key), timeout=timeout, limits=limits, verify=_certificates()
        )

    def _choices(
        self, path: str, bodies: Sequence[Mapping[str, JsonValue]], form: type[Answered[ChoiceT]]
    ) -> list[ChoiceT | Broken]:
        """The first choice for each body; ``Broken`` where the server gave none."""

        async def ask() -> list[ChoiceT | Broken]:
            async with self._client() as http:
                asking = [self._ask(http, path, body, form) for body in bodies]
                return list(await asyncio.gather(*asking))

        return completed(ask())

    async def _ask(
        self,
        http: httpx.AsyncClient,
        path: str,
        body: Mapping[str, JsonValue],
        form: type[Answered[ChoiceT]],
    ) -> ChoiceT | Broken:
        """The first choice for ``body``.

        Raises:
            BudgetError: the budget does not leave enough for it.
        """
        retrying = AsyncRetrying(
            stop=stop_after_attempt(self._attempts),
            wait=wait_random_exponential(self._pause, max=60),
            retry=retry_if_exception_type(_TransientError),
            reraise=True,
        )
        try:
            found: ChoiceT = await retrying(self._ask_once, http, f"{self._base}{path}", body, form)
        except EndpointError as error:
            return Broken(str(error))
        return found

    async def _ask_once(
        self,
        http: httpx.AsyncClient,
        url: str,
        body: Mapping[str, JsonValue],
        form: type[Answered[ChoiceT]],
    ) -> ChoiceT:
        while True:
            sent = self._taken(body)
            response = await self._post(http, url, sent)
            refused = self._refused(response, sent)
            if refused is None:
                break
            self._refuses.add(refused)
        status, said = response.status_code, masked(response.text[:200])
        if status in _TRANSIENT_STATUSES or status >= 500:
            remedy = _ALLOW_IT if status == 429 else _REACH_IT
            raise self._transient(url, f"answered {status}: {said}", remedy)
        if status != 200:
            refusal = (
                f"the endpoint {masked(url)} refused the request with {status}: {said}; "
                f"{self._remedy(status)}"
            )
            if status in _UNUSABLE_STATUSES and not self._answered:
                self.unusable = refusal
            raise EndpointError(refusal)
        self._answered, self.unusable = True, ""
        try:
            return form.model_validate_json(response.content).choices[0]
        except ValidationError as error:
            raise self._transient(url, f"answered garbage: {said[:100]!r}") from error

    def _remedy(self, status: int) -> str:
        match status:
            case 401 | 403:
                unset = "" if os.environ.get(self._key) else ", which is not set"
                return f"required: a key that may ask {self._model}; check {self._key}{unset}"
            case 404:
                return f"required: a model that it serves; check the name {self._model} and the URL"
            case _:
                return f"required: a request that {self._model} takes; see what it objects to"

    def _taken(self, body: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """``body`` without what the model is known to refuse."""
        sent = {name: value for name, value in body.items() if name not in self._refuses}
        limit = body.get("max_tokens")
        if "max_tokens" in self._refuses and isinstance(limit, int):
            sent["max_completion_tokens"] = limit + THINKING_TOKENS
        return sent

    def _refused(self, response: httpx.Response, sent: Mapping[str, JsonValue]) -> str | None:
        """The parameter that the server refuses and agents can do without, if it is that."""
        if response.status_code != 400:
            return None
        try:
            name = _Refused.model_validate_json(response.content).error.param
        except ValidationError:
            return None
        if name not in _DISPENSABLE or name not in sent:
            return None
        if name not in self._refuses:
            instead = (
                f"max_completion_tokens with {THINKING_TOKENS:,} more, to think, is sent instead"
                if name == "max_tokens"
                else "it is left out"
            )
            warnings.warn(
                f"{self._model} takes no {name}={sent[name]!r}: {instead}",
                EvopromptWarning,
                stacklevel=2,
            )
        return name

    async def _post(
        self, http: httpx.AsyncClient, url: str, body: Mapping[str, JsonValue]
    ) -> httpx.Response:
        """The answer, paid for."""
        spending = self._spending
        if spending is None:
            return await self._posted(http, url, body)
        limit = body.get("max_completion_tokens", body.get("max_tokens"))
        # A token is at least one byte, so the bytes of the texts bound their tokens.
        inputs = len(json.dumps(body, ensure_ascii=False).encode()) + TOKENS_AROUND
        outputs = limit if isinstance(limit, int) else 0
        actual = charge_of(spending.prices, inputs, outputs)
        call = spending.tracker.reserve(actual, spending.budget, self._model)
        try:
            response = await self._posted(http, url, body)
            if response.status_code >= 400:
                actual = charge_of(spending.prices)
            else:
                usage = _usage(response)
                if usage is not None:
                    used = usage.prompt_tokens, usage.completion_tokens
                    actual = charge_of(spending.prices, *used)
            return response
        finally:
            spending.tracker.settle(call, actual, self._model)

    async def _posted(
        self, http: httpx.AsyncClient, url: str, body: Mapping[str, JsonValue]
    ) -> httpx.Response:
        try:
            _ = urlsplit(url).port  # httpx lets ports through that there are none of
            return await http.post(url, json=body)
        except (ValueError, httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise EndpointError(f"the endpoint {masked(url)} is no address ({error})") from error
        except httpx.ConnectError as error:
            what = f"does not answer ({error})"
            if self._answered:
                raise self._transient(url, what) from error
            self.unusable = f"the endpoint {masked(url)} {what}; required: {_REACH_IT}"
            raise EndpointError(self.unusable) from error
        except httpx.HTTPError as error:
            what = f"does not answer ({error or type(error).__name__})"
            raise self._transient(url, what) from error

    def _transient(self, url: str, what: str, remedy: str = _REACH_IT) -> _TransientError:
        return _TransientError(
            f"the endpoint {masked(url)} {what}, tried {self._attempts} times; required: {remedy}"
        )


def headers(key: str = KEY) -> dict[str, str]:
    """What authorises a request, by the environment variable ``key``."""
    found = os.environ.get(key, "")
    return {"Authorization": f"Bearer {found}"} if found else {}


def _usage(response: httpx.Response) -> _Usage | None:
    try:
        return Answered[BaseModel].model_validate_json(response.content).usage
    except ValidationError:
        return None


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Read once, as that takes longer than an answer of a server nearby."""
    return httpx.create_ssl_context()
