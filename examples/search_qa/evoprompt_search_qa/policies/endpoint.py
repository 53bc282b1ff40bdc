"""A model behind an OpenAI-compatible endpoint, such as vLLM's."""

from __future__ import annotations

from pathlib import Path

import httpx
from pydantic import BaseModel, ValidationError
from transformers import AutoTokenizer

from evoprompt.agents.endpoint import ChatEndpoint, TokenEndpoint, headers
from evoprompt.errors import InputError
from evoprompt_search_qa.policies.base import Policy
from evoprompt_search_qa.policies.revision import weights_revision


class _Model(BaseModel):
    id: str
    root: str | None = None
    created: int | None = None


class _Models(BaseModel):
    data: list[_Model]


def load(model: str, base_url: str, tokenizer: str | None) -> Policy:
    """The model that a server calls ``model``.

    Args:
        model: its name.
        base_url: of the server, such as ``http://127.0.0.1:8000/v1``.
        tokenizer: name or folder of the model's tokenizer, to send the token stream of training;
            without it, the model is asked in chat messages.

    Raises:
        InputError: the tokenizer cannot be loaded.
    """
    known = revision(model, base_url)
    if tokenizer is None:
        chat = ChatEndpoint(model, base_url)
        return Policy(model, chat.tokenizer, lambda: chat, known)
    try:
        found = AutoTokenizer.from_pretrained(tokenizer)
    except (OSError, ValueError) as error:
        told = " ".join(str(error).split())[:300]
        raise InputError(
            f"--tokenizer is {tokenizer!r}, which cannot be loaded ({told}); required: the folder "
            "or name of the served model"
        ) from error
    endpoint = TokenEndpoint(model, base_url)
    return Policy(model, found, lambda: endpoint, known)


def models(base_url: str) -> list[_Model]:
    """What a server of OpenAI's protocol serves.

    Raises:
        HTTPError: it does not answer, or refuses.
        InvalidURL: ``base_url`` is no address.
        ValidationError: what it says is of another form.
    """
    answer = httpx.get(f"{base_url.rstrip('/')}/models", headers=headers(), timeout=10.0)
    return _Models.model_validate_json(answer.raise_for_status().content).data


def revision(model: str, base_url: str) -> str:
    """What the server says of the model; empty if nothing.

    That is a digest of its folder if it is on this machine, else its root or, without one, the
    time of its creation.
    """
    try:
        served = models(base_url)
    except (httpx.HTTPError, httpx.InvalidURL, ValidationError):
        return ""
    found = next((one for one in served if one.id == model), None)
    if found is None:
        return ""
    if found.root is None:
        return f"created {found.created}" if found.created else ""
    return weights_revision(Path(found.root)) or found.root
