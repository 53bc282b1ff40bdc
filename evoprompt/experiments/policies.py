"""Whom an evaluation asks: a policy in this process, or one behind a server."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import cast

import openai
from pydantic import JsonValue

from evoprompt.agents import CallMany, ChatTokenizer, Episode, EpisodeSteps, Limits, play
from evoprompt.agents.endpoint import KEY, ChatEndpoint, TokenEndpoint
from evoprompt.agents.recipe import Recipe
from evoprompt.agents.tasks import Policy, Task, limits_of
from evoprompt.agents.tokenizer import TemplateVariables
from evoprompt.errors import InputError
from evoprompt.optimizer.endpoint import OPENAI, address_of
from evoprompt.storage import RECIPE_FILE

_BLOCK = 1 << 20
_WEIGHTS = ("config.json", "tokenizer.json", "*.safetensors", "*.bin")


class ServedModel(Policy):
    """A model behind a server of OpenAI's protocol.

    Args:
        task: whose limits hold.
        model: ``openai:NAME``, or with ``base_url`` a name that this server knows.
        base_url: of the server, such as ``http://127.0.0.1:8000/v1``.
        tokenizer: name or folder of the model's tokenizer, to send the token stream of training;
            without it, the model is asked in chat messages.

    Raises:
        InputError: there is no address.
    """

    def __init__(self, task: Task, model: str, base_url: str | None, tokenizer: str | None) -> None:
        name, self._address = address_of(model, base_url)
        self._name = name.removeprefix(OPENAI)
        self._limits = limits_of(task)
        self._named = tokenizer
        kind = ChatEndpoint if tokenizer is None else TokenEndpoint
        self._sampler = kind(self._name, self._address, extra_body=_sampling(tokenizer))

    @cached_property
    def tokenizer(self) -> ChatTokenizer:
        """Of the policy.

        Raises:
            InputError: it cannot be loaded.
        """
        return ChatEndpoint.tokenizer if self._named is None else _loaded(self._named)

    @property
    def limits(self) -> Limits:
        """What an episode may use."""
        return self._limits

    def answer(self, plays: Sequence[EpisodeSteps], call: CallMany) -> list[Episode]:
        """Greedy episodes, asked for together."""
        return play(plays, self._sampler, call, greedy=True)

    def notices(self) -> list[str]:
        """What a person should know before it is asked."""
        found = []
        if self._named is None:
            found.append(
                "the policy is asked in chat messages, not with the token stream of training; for "
                "a policy that was trained here, give --tokenizer"
            )
        if not self.weights():
            found.append(
                "the weights are unknown, as their server does not say: nobody will notice if they "
                "are others when this evaluation is continued"
            )
        return found

    def weights(self) -> str:
        """What the server tells of the weights; empty if nothing.

        That is a digest of their folder if it is on this machine, else its name or, without one,
        the time since when they are served.
        """
        try:
            found = self._served()[self._name]
        except (openai.OpenAIError, KeyError):
            return ""
        root = (found.model_extra or {}).get("root")
        if not isinstance(root, str):
            created = getattr(found, "created", None)
            return f"created {created}" if created else ""
        return digest(Path(root)) or root

    def _served(self) -> dict[str, openai.types.Model]:
        """By name, what the server serves.

        Raises:
            OpenAIError: it does not answer, refuses, or what it says is of another form.
        """
        key = os.environ.get(KEY) or "none"
        with openai.OpenAI(
            base_url=self._address, api_key=key, max_retries=0, timeout=10.0
        ) as server:
            try:
                return {one.id: one for one in server.models.list().data}
            except (TypeError, ValueError, AttributeError) as error:
                raise openai.OpenAIError(f"it answers garbage ({error})") from error


def weights_of(policy: Policy) -> str:
    """What tells the weights of a policy of this process: a digest of its folder, else its name."""
    name = str(getattr(policy.tokenizer, "name_or_path", ""))
    return (digest(Path(name)) if name else "") or name


def digest(folder: Path) -> str:
    """Tells the weights, configuration and tokenizer in ``folder`` from others; empty without any.

    Of a file it reads the size, and the first and the last MiB.
    """
    paths = sorted(path for part in _WEIGHTS for path in folder.glob(part))
    found = hashlib.blake2b(digest_size=16)
    for path in paths:
        size = path.stat().st_size
        with path.open("rb") as file:
            found.update(f"{path.name} {size}".encode() + file.read(_BLOCK))
            file.seek(max(size - _BLOCK, 0))
            found.update(file.read())
    return found.hexdigest() if paths else ""


def _sampling(folder: str | None) -> dict[str, JsonValue]:
    """What a policy that was trained here was sampled by, and is by a server, chance apart."""
    file = Path(folder or "") / "generation_config.json"
    if folder is None or not (Path(folder) / RECIPE_FILE).is_file() or not file.is_file():
        return {}
    penalty = json.loads(file.read_bytes()).get("repetition_penalty")
    return {} if penalty is None else {"repetition_penalty": penalty}


def _loaded(tokenizer: str) -> ChatTokenizer:
    """The tokenizer; of a policy that was trained here, it asks as the training did."""
    from transformers import AutoTokenizer

    try:
        found: ChatTokenizer = AutoTokenizer.from_pretrained(tokenizer)
        if (Path(tokenizer) / RECIPE_FILE).is_file():
            recipe = Recipe.read(Path(tokenizer))
            settings = {**recipe.settings, "chat_template": recipe.template}
            return cast(ChatTokenizer, TemplateVariables(found, settings))
    except (OSError, ValueError) as error:
        told = " ".join(str(error).split())[:300]
        raise InputError(
            f"--tokenizer is {tokenizer!r}, which cannot be loaded ({told}); required: the folder "
            "or name of the served model"
        ) from error
    return found
