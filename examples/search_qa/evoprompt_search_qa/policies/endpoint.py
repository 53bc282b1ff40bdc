"""A model behind an OpenAI-compatible endpoint, such as vLLM's."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import openai
from transformers import AutoTokenizer

from evoprompt.agents.endpoint import KEY, ChatEndpoint, TokenEndpoint
from evoprompt.errors import InputError
from evoprompt_search_qa.policies.base import Policy
from evoprompt_search_qa.policies.revision import weights_revision


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


def models(base_url: str) -> Sequence[openai.types.Model]:
    """What a server of OpenAI's protocol serves.

    Raises:
        OpenAIError: it does not answer, refuses, or what it says is of another form.
    """
    with openai.OpenAI(
        base_url=base_url, api_key=os.environ.get(KEY) or "none", max_retries=0, timeout=10.0
    ) as server:
        try:
            return list(server.models.list().data)
        except (TypeError, ValueError, AttributeError) as error:
            raise openai.OpenAIError(f"it answers garbage ({error})") from error


def revision(model: str, base_url: str) -> str:
    """What the server says of the model; empty if nothing.

    That is a digest of its folder if it is on this machine, else its root or, without one, the
    time of its creation.
    """
    try:
        served = models(base_url)
    except openai.OpenAIError:
        return ""
    found = next((one for one in served if one.id == model), None)
    if found is None:
        return ""
    root = (found.model_extra or {}).get("root")
    if not isinstance(root, str):
        created = getattr(found, "created", None)
        return f"created {created}" if created else ""
    return weights_revision(Path(root)) or root
