"""Requests to a server of OpenAI's protocol, with payment, retries and supported parameters."""

from __future__ import annotations

import asyncio
import functools
import json
import re
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

import httpx
import openai
from pydantic import BaseModel, Field, HttpUrl, JsonValue, TypeAdapter, ValidationError
from tenacity import AsyncRetrying

from evoprompt.agents.agent import Sampling
from evoprompt.agents.episode import Broken
from evoprompt.lm.attempts import kinds_of, may_pass, require_size, retry_settings
from evoprompt.lm.budget import Spending
from evoprompt.lm.keys import describe_key, key_for
from evoprompt.lm.loop import completed
from evoprompt.lm.outcomes import is_account_empty
from evoprompt.support.credentials import keep_secret, masked
from evoprompt.support.errors import BudgetError, InputError, LmError, causes, warn

THINKING_TOKENS = 16_000
"""Tokens beyond the limit of an action, for models that think before they answer."""

_DISPENSABLE_PARAMETERS = ("max_tokens", "temperature", "stop")
"""Parameters that reasoning models refuse, and without which agents can work."""
_MESSAGE_FIELDS = frozenset({"role", "content", "name", "tool_calls", "tool_call_id"})
"""Message fields that every server accepts; some refuse further fields of their own messages."""
_UNSUPPORTED = re.compile(
    r"unsupported|un(?:known|recogni[sz]ed|expected)|deprecated|obsolete|incompatible"
    r"|only the default|extra (?:input|field)|invalid (?:parameter|argument|field)|that support"
    r"|only (?:be |\S+ (?:is )?)(?:set|allow|support|accept)|must (?:be )?(?:1\b|left|omit|unset)"
    r"|fixed (?:at|to)|instead of|please (?:remove|omit|leave)"
    r"|(?:not|n't|cannot|no longer) (?:\w+ ){0,2}"
    r"(?:support|permit|allow|accept|avail|specif|used|set\b|compatible)",
    re.IGNORECASE,
)
"""Words of a server that supports a parameter, or its value, in no request."""

_BYTES_A_TOKEN = 1024  # of an answer with ids and log-probabilities
_BYTES_AROUND = 2**24  # some servers repeat the tokens of the prompt
_LIMIT_EXCEEDED = re.compile(r"too (?:large|long|big|high)|exceed|at most|maximum", re.IGNORECASE)
"""Words of a server that supports a limit of tokens, but not such a large one."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_TRANSFER_HEADERS = ("content-encoding", "content-length", "transfer-encoding")
_ADDRESS = TypeAdapter(HttpUrl)
_SERVER_REMEDY = "a server of OpenAI's protocol; start it, or check the address"
_QUOTA_REMEDY = (
    "a quota and a rate that allow it; wait, ask for fewer at a time, or see the account"
)

_MAX_ANSWER_TOKENS: ContextVar[int] = ContextVar("_MAX_ANSWER_TOKENS", default=0)
"""Maximum number of tokens of the requested answer."""

ChoiceT = TypeVar("ChoiceT", bound=BaseModel)


class ServerResponse(BaseModel, Generic[ChoiceT]):
    """Response of a server; further fields are ignored, and usage may be any value."""

    choices: list[ChoiceT] = Field(min_length=1)
    usage: JsonValue = None


class _BoundedClient(openai.DefaultAsyncHttpxClient):
    """Client that stops reading a response, also an error, beyond its longest possible size."""

    async def send(
        self, request: httpx.Request, *, stream: bool = False, **options: Any
    ) -> httpx.Response:
        """Return the response with its whole body.

        Raises:
            LmError: the response is too long.
        """
        self.cookies.clear()  # else all episodes share those of one answer
        longest, read = _MAX_ANSWER_TOKENS.get(), bytearray()
        response = await super().send(request, stream=True, **options)
        try:
            async for piece in response.aiter_bytes():
                read += piece
                require_size(len(read), _BYTES_AROUND + _BYTES_A_TOKEN * longest, longest)
        finally:
            await response.aclose()
        headers = {
            name: value for name, value in response.headers.items() if name not in _TRANSFER_HEADERS
        }
        # The class belongs to the SDK's library: httpx2 since openai 3, httpx before.
        return type(response)(
            response.status_code, headers=headers, content=bytes(read), request=request
        )


class ModelServer(Generic[ChoiceT]):
    """Model on a server; a subclass has the path of the requests and the form of a response.

    Args:
        model: the server's name of the model.
        base_url: address of the server, such as ``http://127.0.0.1:8000/v1``.
        temperature: temperature of sampling that is not greedy; None sends none.
        connections: maximum number of concurrent requests.
        timeout: longest silence of the server, in seconds.
        deadline: seconds for one answer, over all attempts; by default twice ``timeout``.
        attempts: maximum number of attempts after rate limits, server and network errors, at least
            1.
        pause: longest pause before the second attempt, in seconds; it doubles from then on.
        key: environment variable of the key for this server; by default that of the provider whose
            address it is, and no key for any other server.
        spending: account that counts and limits the cost of requests; by default in memory.
        extra_body: further fields of every request, such as ``chat_template_kwargs``, ``min_p`` or
            ``reasoning_effort``; they override the usual ones.

    Raises:
        InputError: ``base_url`` is not an address.
    """

    path: str
    answered: type[ServerResponse[ChoiceT]]

    def __init__(
        self,
        model: str,
        base_url: str,
        *,
        temperature: float | None = 1.0,
        connections: int = 64,
        timeout: float = 300.0,
        deadline: float | None = None,
        attempts: int = 5,
        pause: float = 1.0,
        key: str | None = None,
        spending: Spending | None = None,
        extra_body: Mapping[str, JsonValue] | None = None,
    ) -> None:
        try:
            _ADDRESS.validate_python(base_url)
        except ValidationError as error:
            raise InputError(
                f"the endpoint {masked(base_url)} is no address ({error.errors()[0]['msg']}); "
                "required: that of a server, such as http://127.0.0.1:8000/v1"
            ) from error
        self._model = model
        self._base = base_url.rstrip("/")
        self._where = f"the endpoint {masked(self._base)}{self.path}"
        self._temperature = temperature
        self._connections = connections
        self._timeout = timeout
        self._deadline = 2 * timeout if deadline is None else deadline
        self._attempts, self._pause = attempts, pause
        self._key = key
        self._spending = spending or Spending()
        self._extra = dict(extra_body or {})
        self._refuses: set[str] = set()
        self._answered = False

    def _body(self, sampling: Sampling, *, greedy: bool) -> dict[str, JsonValue]:
        body: dict[str, JsonValue] = {"model": self._model, "max_tokens": sampling.max_tokens}
        if self._temperature is not None:
            body["temperature"] = 0.0 if greedy else self._temperature
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        return {**body, **self._extra}

    def _client(self) -> openai.AsyncOpenAI:
        """Return a client that makes a single attempt for a request."""
        key = key_for(self._base, self._key)
        if key:
            keep_secret(key)
        return openai.AsyncOpenAI(
            base_url=self._base,
            api_key=key or "none",
            max_retries=0,
            timeout=self._timeout,
            http_client=_BoundedClient(verify=_certificates()),
        )

    def _choices(self, bodies: Sequence[Mapping[str, JsonValue]]) -> list[ChoiceT | Broken]:
        """Return the first choice for each body, or ``Broken`` if the server gave none."""

        async def ask() -> list[ChoiceT | Broken]:
            slots = asyncio.Semaphore(self._connections)

            async def ask_one(body: Mapping[str, JsonValue]) -> ChoiceT | Broken:
                async with slots:
                    try:
                        return await self._ask(client, body)
                    except BudgetError:
                        raise
                    except LmError as error:
                        return Broken(str(error))

            async with self._client() as client:
                return list(await asyncio.gather(*map(ask_one, bodies)))

        return completed(ask())

    async def _ask(self, client: openai.AsyncOpenAI, body: Mapping[str, JsonValue]) -> ChoiceT:
        """Return the first choice for ``body``.

        Raises:
            BudgetError: the budget does not leave enough for the request.
            LmError: the server gave no choice.
        """
        policy = retry_settings(self._attempts, self._deadline, self._may_pass, self._pause)
        try:
            async with asyncio.timeout(self._deadline):
                answered: ServerResponse[ChoiceT] = await AsyncRetrying(**policy)(
                    self._attempt, client, body
                )
        except BudgetError:
            raise
        except (openai.OpenAIError, LmError, TimeoutError, UnicodeEncodeError) as error:
            raise LmError(f"{self._where} {self._explain(error)}") from error
        self._answered = True
        return answered.choices[0]

    async def _attempt(
        self, client: openai.AsyncOpenAI, body: Mapping[str, JsonValue]
    ) -> ServerResponse[ChoiceT]:
        """Make one attempt, and repeat it without each parameter that the model refuses."""
        while True:
            sent = self._supported(body)
            try:
                return await self._send_paid(client, sent)
            except openai.APIStatusError as error:
                if not self._can_do_without(_refused_parameter(error, sent), sent):
                    raise
            except openai.APIConnectionError as error:
                if isinstance(error.__cause__, LmError):  # raised by _BoundedClient
                    raise error.__cause__ from None
                raise

    async def _send_paid(
        self, client: openai.AsyncOpenAI, body: Mapping[str, JsonValue]
    ) -> ServerResponse[ChoiceT]:
        limit = body.get("max_completion_tokens", body.get("max_tokens"))
        longest = limit if isinstance(limit, int) else 0
        with self._spending.paid(self._model, body, longest) as attempt:
            _MAX_ANSWER_TOKENS.set(longest)
            response = await client.post(self.path, body=body, cast_to=httpx.Response)
            try:
                answered = self._read(response.content)
            except ValidationError as error:
                status = _status_in_body(response.content)
                if status is None:
                    raise openai.APIResponseValidationError(response, None) from error
                response.status_code = status
                raise openai.APIStatusError("", response=response, body=None) from error
            if isinstance(used := answered.usage, dict):
                attempt.used(
                    used.get("prompt_tokens") or used.get("input_tokens"),
                    used.get("completion_tokens") or used.get("output_tokens"),
                )
        return answered

    def _read(self, content: bytes) -> ServerResponse[ChoiceT]:
        """Parse a response, also with a byte order mark or with lone surrogates in its texts."""
        try:
            return self.answered.model_validate_json(content)
        except ValidationError:
            try:
                text = json.dumps(json.loads(content), ensure_ascii=False)
            except (ValueError, RecursionError):
                text = ""
            if not text:
                raise
            return self.answered.model_validate_json(_SURROGATE.sub("\ufffd", text))

    def _may_pass(self, error: BaseException) -> bool:
        if isinstance(error, openai.APIStatusError):
            answer = error.response
            if is_account_empty(answer.status_code, answer.content):
                return False
        if isinstance(error, openai.APIConnectionError) and _has_no_connection(error):
            return self._answered  # without an earlier answer there is no server
        return isinstance(error, openai.APIResponseValidationError) or may_pass(error)

    def _explain(self, error: Exception) -> str:
        """Describe the outcome of the last attempt, and the remedy."""
        match error:
            case openai.APIResponseValidationError():
                garbage = masked(error.response.text)[:100]
                return f"answered garbage: {garbage!r}; required: {_SERVER_REMEDY}"
            case openai.APIStatusError(status_code=status):
                key_remedy = describe_key(
                    self._base,
                    self._key,
                    "--api-key-env, in a configuration host.api_key_env, "
                    "or Endpoint(..., key=NAME)",
                )
                of_a_key = f"a key that may ask {self._model}; {key_remedy}"
                remedies = {
                    401: of_a_key,
                    403: of_a_key,
                    404: f"a model that it serves; check the name {self._model} and the URL",
                    429: _QUOTA_REMEDY,
                }
                objects = f"a request that {self._model} takes; see what it objects to"
                usual = _SERVER_REMEDY if may_pass(error) else objects
                excerpt = masked(error.response.text)[:200]
                return f"answered {status}: {excerpt}; required: {remedies.get(status, usual)}"
            case openai.APIConnectionError():
                cause = error.__cause__ or error
                reason = str(cause) or type(cause).__name__
                return f"does not answer ({reason}); required: {_SERVER_REMEDY}"
            case TimeoutError():
                return f"gave no answer in {self._deadline:g} s; required: {_SERVER_REMEDY}"
            case UnicodeEncodeError():
                return (
                    "cannot be sent a request: the text holds half a character, or the key is not "
                    "ASCII; required: whole characters; look at what the tools return"
                )
        return str(error)

    def _supported(self, body: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Return ``body`` without the parameters that the model refuses."""
        sent = {name: value for name, value in body.items() if name not in self._refuses}
        if "messages" in sent:
            sent["messages"] = [
                {name: value for name, value in message.items() if name not in self._refuses}
                for message in _messages(sent)
            ]
        limit = body.get("max_tokens")
        if "max_tokens" in self._refuses and isinstance(limit, int):
            sent["max_completion_tokens"] = limit + THINKING_TOKENS
        return sent

    def _can_do_without(self, name: str | None, sent: Mapping[str, JsonValue]) -> bool:
        """Return whether the refused parameter can be left out; leave it out from now on."""
        if name is None:
            return False
        if name not in self._refuses:
            self._refuses.add(name)
            instead = (
                f"max_completion_tokens with {THINKING_TOKENS:,} more, to think, is sent instead"
                if name == "max_tokens"
                else "it is left out"
            )
            value = f"={sent[name]!r}" if name in sent else " in messages"
            warn(f"{self._model} takes no {name}{value}: {instead}")
        return True


def _refused_parameter(error: openai.APIStatusError, sent: Mapping[str, JsonValue]) -> str | None:
    """Return the dispensable parameter that a server refuses; None if there is none.

    Gateways often name it only in their message, within that of the provider behind them. A limit
    that is too large for the context of a model is not a refused parameter.
    """
    message_text = error.response.text
    if error.status_code not in (400, 404, 422, 500) or not _UNSUPPORTED.search(message_text):
        return None
    candidates = [name for name in _DISPENSABLE_PARAMETERS if name in sent]
    candidates += sorted(
        {name for message in _messages(sent) for name in message} - _MESSAGE_FIELDS
    )
    if "max_tokens" in candidates and _LIMIT_EXCEEDED.search(message_text):
        candidates.remove("max_tokens")
    if error.param in candidates:
        return error.param
    matches = {name: re.search(rf"(?<![\w-]){name}(?![\w-])", message_text) for name in candidates}
    positions = {name: match.start() for name, match in matches.items() if match}
    return min(positions, key=positions.__getitem__, default=None)


def _messages(body: Mapping[str, JsonValue]) -> list[dict[str, JsonValue]]:
    messages = body.get("messages")
    return (
        [message for message in messages if isinstance(message, dict)]
        if isinstance(messages, list)
        else []
    )


def _status_in_body(content: bytes) -> int | None:
    """Return the status of an error that was sent as a normal response, as gateways do."""
    with suppress(ValueError, RecursionError, LookupError, TypeError):
        status = int(json.loads(content)["error"]["code"])
        return status if status in range(400, 600) else None
    return None


def _has_no_connection(error: openai.APIConnectionError) -> bool:
    """Return whether no connection could be made; the class of its cause is httpx's or httpx2's."""
    return any("ConnectError" in kinds_of(cause) for cause in causes(error))


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Load the certificates once, as that takes longer than a response of a local server."""
    return httpx.create_ssl_context()
