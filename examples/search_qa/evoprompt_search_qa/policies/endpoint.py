"""A model behind an OpenAI-compatible endpoint, such as vLLM's, asked in chat messages."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path

import httpx
from pydantic import BaseModel, Field, ValidationError
from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from evoprompt_search_qa.policies.base import Dialogue, PolicyError, Reply, Sampling
from evoprompt_search_qa.policies.revision import weights_revision
from evoprompt_search_qa.retrieval.address import flaw

KEY = "OPENAI_API_KEY"
"""Environment variable that holds the key; a server without keys needs none."""

_TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})


class _TransientError(PolicyError):
    """Worth another attempt."""


class _Message(BaseModel):
    content: str | None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Answer(BaseModel):
    choices: list[_Choice] = Field(min_length=1)


class _Model(BaseModel):
    id: str
    root: str | None = None
    created: int | None = None


class _Models(BaseModel):
    data: list[_Model]


class EndpointPolicy:
    """Asks ``/chat/completions``, many dialogues at the same time.

    Instruction and question are the system and the user message; then actions are messages of the
    assistant, observations messages of the user.

    Args:
        model: as the server names it.
        base_url: of the server, such as ``http://127.0.0.1:8000/v1``.
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
        connections: int = 64,
        timeout: float = 300.0,
        attempts: int = 5,
        pause: float = 1.0,
    ) -> None:
        self.name = model
        self._base = base_url.rstrip("/")
        self._url = f"{self._base}/chat/completions"
        self._connections = connections
        self._timeout = timeout
        self._attempts, self._pause = attempts, pause

    def revision(self) -> str:
        """What the server says of the model; empty if nothing.

        That is a digest of its folder if it is on this machine, else its root or, without one, the
        time of its creation.
        """
        try:
            answer = httpx.get(f"{self._base}/models", headers=_headers(), timeout=10.0)
            served = _Models.model_validate_json(answer.raise_for_status().content).data
        except (httpx.HTTPError, httpx.InvalidURL, ValidationError):
            return ""
        found = next((one for one in served if one.id == self.name), None)
        if found is None:
            return ""
        if found.root is None:
            return f"created {found.created}" if found.created else ""
        return weights_revision(Path(found.root)) or found.root

    def written(self, dialogue: Dialogue) -> str:
        """The messages as JSON; the server's chat template does the rest."""
        return json.dumps(messages(dialogue), indent=1)

    def complete(self, dialogues: Sequence[Dialogue], sampling: Sampling) -> list[Reply]:
        """One reply a dialogue; a :class:`PolicyError` where the server gave none."""
        return asyncio.run(self._complete(dialogues, sampling))

    async def _complete(self, dialogues: Sequence[Dialogue], sampling: Sampling) -> list[Reply]:
        # Waiting for a free connection is not silence of the server.
        timeout = httpx.Timeout(self._timeout, pool=None)
        limits = httpx.Limits(max_connections=self._connections)
        async with httpx.AsyncClient(headers=_headers(), timeout=timeout, limits=limits) as http:
            asking = [self._ask(http, dialogue, sampling) for dialogue in dialogues]
            return list(await asyncio.gather(*asking))

    async def _ask(self, http: httpx.AsyncClient, dialogue: Dialogue, sampling: Sampling) -> Reply:
        body = {
            "model": self.name,
            "messages": messages(dialogue),
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "stop": list(sampling.stop) or None,
        }
        retrying = AsyncRetrying(
            stop=stop_after_attempt(self._attempts),
            wait=wait_random_exponential(self._pause, max=60),
            retry=retry_if_exception_type(_TransientError),
            reraise=True,
        )
        try:
            choice: _Choice = await retrying(self._ask_once, http, body)
        except PolicyError as error:
            return error
        text = choice.message.content or ""
        # What was cut at the limit of tokens is no closed query or answer, as in training.
        return text if choice.finish_reason == "length" else with_stop(text, sampling.stop)

    async def _ask_once(self, http: httpx.AsyncClient, body: dict[str, object]) -> _Choice:
        if why := flaw(self._url):
            raise PolicyError(f"the endpoint {self._url} is no address ({why})")
        try:
            response = await http.post(self._url, json=body)
        except httpx.InvalidURL as error:
            raise PolicyError(f"the endpoint {self._url} is no address ({error})") from error
        except httpx.HTTPError as error:
            what = f"does not answer ({error or type(error).__name__})"
            raise self._transient(what) from error
        status = response.status_code
        if status in _TRANSIENT_STATUSES or status >= 500:
            raise self._transient(f"answered {status}: {response.text[:200]}")
        if status != 200:
            raise PolicyError(
                f"the endpoint {self._url} refused the request with {status}: "
                f"{response.text[:200]}; check the model's name and {KEY}"
            )
        try:
            return _Answer.model_validate_json(response.content).choices[0]
        except ValidationError as error:
            raise self._transient(f"answered garbage: {response.text[:100]!r}") from error

    def _transient(self, what: str) -> PolicyError:
        return _TransientError(
            f"the endpoint {self._url} {what}, tried {self._attempts} times; required: a server of "
            "OpenAI's chat protocol; start it, or check the address"
        )


def _headers() -> dict[str, str]:
    key = os.environ.get(KEY, "")
    return {"Authorization": f"Bearer {key}"} if key else {}


def messages(dialogue: Dialogue) -> list[dict[str, str]]:
    """The dialogue as chat messages."""
    asked = "\n\n".join(text for text in (dialogue.given, dialogue.question) if text)
    said = [
        {"role": "system", "content": dialogue.instruction},
        {"role": "user", "content": asked},
    ]
    for turn in dialogue.replied:
        said.append({"role": "assistant", "content": turn.action})
        if turn.observation:
            said.append({"role": "user", "content": turn.observation.strip()})
    return said


def with_stop(text: str, stop: Sequence[str]) -> str:
    """The text with the closing tag at which the server stopped, which servers leave out.

    >>> with_stop("<search> mayor of Ulm", ["</search>", "</answer>"])
    '<search> mayor of Ulm</search>'
    """
    opened = {tag: text.rfind(tag.replace("</", "<", 1)) for tag in stop}
    left = [tag for tag, at in opened.items() if at > text.rfind(tag)]
    return text + max(left, key=opened.__getitem__) if left else text
