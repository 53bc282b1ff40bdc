"""Requests to a server of OpenAI's protocol, with payment, retries and supported parameters."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Generic, TypeVar

import aiohttp
from pydantic import BaseModel, Field, HttpUrl, JsonValue, TypeAdapter, ValidationError
from tenacity import AsyncRetrying

from evoprompt.agents.agent import Sampling
from evoprompt.agents.episode import Broken
from evoprompt.lm.attempts import may_pass, require_size, retry_settings
from evoprompt.lm.budget import Spending
from evoprompt.lm.connections import join_url
from evoprompt.lm.http import BoundedClient, pieces_of
from evoprompt.lm.keys import describe_key, key_for
from evoprompt.lm.loop import completed
from evoprompt.lm.outcomes import is_account_empty
from evoprompt.support.credentials import keep_secret, masked
from evoprompt.support.errors import BudgetError, InputError, LmError, warn

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
_ADDRESS = TypeAdapter(HttpUrl)
_SERVER_REMEDY = "a server of OpenAI's protocol; start it, or check the address"
_QUOTA_REMEDY = (
    "a quota and a rate that allow it; wait, ask for fewer at a time, or see the account"
)

ChoiceT = TypeVar("ChoiceT", bound=BaseModel)


class ServerResponse(BaseModel, Generic[ChoiceT]):
    """Response of a server; further fields are ignored, and usage may be any value."""

    choices: list[ChoiceT] = Field(min_length=1)
    usage: JsonValue = None


class ServerError(LmError):
    """An answer of the server that has no choice.

    Attributes:
        status: HTTP status of the answer, or the status in its body.
        headers: its headers.
        content: its body.
        is_garbage: whether it has the status of a success, and another form than the protocol's.
    """

    def __init__(
        self, status: int, headers: Mapping[str, str], content: bytes, is_garbage: bool = False
    ) -> None:
        self.status = status
        self.headers = headers
        self.content = content
        self.is_garbage = is_garbage
        super().__init__(f"status {status}")

    @property
    def text(self) -> str:
        """Return the body as a text, without secrets."""
        return masked(self.content.decode(errors="replace"))

    @property
    def response(self) -> ServerError:
        """Return the error itself, where the errors of clients have a response."""
        return self


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

    def _client(self) -> AbstractAsyncContextManager[BoundedClient]:
        return BoundedClient(self._timeout, self._deadline).connected()

    def _headers(self) -> dict[str, str]:
        """Return the headers of a request.

        Raises:
            UnicodeEncodeError: the key is not ASCII.
        """
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        key = key_for(self._base, self._key)
        if key:
            keep_secret(key)
            key.encode("ascii")
        return {**headers, "Authorization": f"Bearer {key or 'none'}"}

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

    async def _ask(self, client: BoundedClient, body: Mapping[str, JsonValue]) -> ChoiceT:
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
        except (aiohttp.ClientError, LmError, TimeoutError, ValueError) as error:
            raise LmError(f"{self._where} {self._explain(error)}") from error
        self._answered = True
        return answered.choices[0]

    async def _attempt(
        self, client: BoundedClient, body: Mapping[str, JsonValue]
    ) -> ServerResponse[ChoiceT]:
        """Make one attempt, and repeat it without each parameter that the model refuses."""
        while True:
            sent = self._supported(body)
            try:
                return await self._send_paid(client, sent)
            except ServerError as error:
                if not self._can_do_without(_refused_parameter(error, sent), sent):
                    raise

    async def _send_paid(
        self, client: BoundedClient, body: Mapping[str, JsonValue]
    ) -> ServerResponse[ChoiceT]:
        limit = body.get("max_completion_tokens", body.get("max_tokens"))
        longest = limit if isinstance(limit, int) else 0
        url = join_url(self._base, self.path)
        content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        headers = self._headers()
        with self._spending.paid(self._model, body, longest) as attempt:
            async with client.request("POST", url, content, headers) as answer:
                read = bytearray()
                async for piece in pieces_of(answer):
                    read += piece
                    require_size(len(read), _BYTES_AROUND + _BYTES_A_TOKEN * longest, longest)
            if answer.status >= 300:
                raise ServerError(answer.status, answer.headers, bytes(read))
            try:
                answered = self._read(bytes(read))
            except ValidationError as error:
                status = _status_in_body(bytes(read))
                raise ServerError(
                    status or answer.status, answer.headers, bytes(read), status is None
                ) from error
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
        if isinstance(error, ServerError):
            is_empty = is_account_empty(error.status, error.content)
            return not is_empty and (error.is_garbage or may_pass(error))
        if isinstance(error, aiohttp.ClientConnectorError):
            return self._answered  # without an earlier answer there is no server
        return isinstance(error, aiohttp.ClientError) or may_pass(error)

    def _explain(self, error: Exception) -> str:
        """Describe the outcome of the last attempt, and the remedy."""
        match error:
            case ServerError(is_garbage=True):
                return f"answered garbage: {error.text[:100]!r}; required: {_SERVER_REMEDY}"
            case ServerError(status=status):
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
                usual = _SERVER_REMEDY if may_pass(error) or status < 400 else objects
                return (
                    f"answered {status}: {error.text[:200]}; required: "
                    f"{remedies.get(status, usual)}"
                )
            case TimeoutError():
                return f"gave no answer in {self._deadline:g} s; required: {_SERVER_REMEDY}"
            case aiohttp.ClientError():
                cause = getattr(error, "os_error", error)  # without words about TLS
                reason = str(cause) or type(error).__name__
                return f"does not answer ({reason}); required: {_SERVER_REMEDY}"
            case UnicodeEncodeError():
                return (
                    "cannot be sent a request: the text holds half a character, or the key is not "
                    "ASCII; required: whole characters; look at what the tools return"
                )
            case ValueError():
                return f"cannot be sent a request: {masked(str(error))}"
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


def _refused_parameter(error: ServerError, sent: Mapping[str, JsonValue]) -> str | None:
    """Return the dispensable parameter that a server refuses; None if there is none.

    Gateways often name it only in their message, within that of the provider behind them. A limit
    that is too large for the context of a model is not a refused parameter.
    """
    message_text = error.text
    if error.status not in (400, 404, 422, 500) or not _UNSUPPORTED.search(message_text):
        return None
    candidates = [name for name in _DISPENSABLE_PARAMETERS if name in sent]
    candidates += sorted(
        {name for message in _messages(sent) for name in message} - _MESSAGE_FIELDS
    )
    if "max_tokens" in candidates and _LIMIT_EXCEEDED.search(message_text):
        candidates.remove("max_tokens")
    if (named := _parameter_in_body(error.content)) in candidates:
        return named
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


def _parameter_in_body(content: bytes) -> str | None:
    """Return the parameter that an error of the protocol names."""
    with suppress(ValueError, RecursionError, LookupError, TypeError):
        return str(json.loads(content)["error"]["param"])
    return None


def _status_in_body(content: bytes) -> int | None:
    """Return the status of an error that was sent as a normal response, as gateways do."""
    with suppress(ValueError, RecursionError, LookupError, TypeError):
        status = int(json.loads(content)["error"]["code"])
        return status if status in range(400, 600) else None
    return None
