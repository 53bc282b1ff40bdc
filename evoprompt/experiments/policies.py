"""Policy of an evaluation without a trainer: a model behind a server."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import cast

from evoprompt.agents import CallMany, ChatTokenizer, Episode, EpisodeSteps, Limits, play
from evoprompt.agents.endpoint import ChatEndpoint, TokenEndpoint
from evoprompt.agents.recipe import Recipe
from evoprompt.agents.tasks import Policy, Task, limits_of
from evoprompt.agents.tokenizer import TemplateVariables
from evoprompt.optimizer.endpoint import OPENAI, address_of
from evoprompt.support.errors import InputError
from evoprompt.support.storage import RECIPE_FILE


class ServedModel(Policy):
    """Model behind a server of OpenAI's protocol.

    Args:
        task: its limits hold.
        model: ``openai:NAME``, or with ``base_url`` a name that this server knows.
        base_url: of the server, such as ``http://127.0.0.1:8000/v1``.
        tokenizer: name or folder of the model's tokenizer, to send the token stream of training;
            without it, the requests are chat messages.
        api_key_env: environment variable of the server's key, as of
            :class:`~evoprompt.optimizer.endpoint.Endpoint`.

    Raises:
        InputError: there is no address.
    """

    def __init__(
        self,
        task: Task,
        model: str,
        base_url: str | None,
        tokenizer: str | None,
        api_key_env: str | None = None,
    ) -> None:
        name, address = address_of(model, base_url)
        self._model = name.removeprefix(OPENAI)
        self._limits = limits_of(task)
        self._tokenizer_name = tokenizer
        kind = ChatEndpoint if tokenizer is None else TokenEndpoint
        self._sampler = kind(self._model, address, key=api_key_env)

    @property
    def name(self) -> str:
        """Return the model's name on the server."""
        return self._model

    @cached_property
    def tokenizer(self) -> ChatTokenizer:
        """Return the tokenizer of the policy.

        Raises:
            InputError: it cannot be loaded.
        """
        return (
            ChatEndpoint.tokenizer
            if self._tokenizer_name is None
            else _load_tokenizer(self._tokenizer_name)
        )

    @property
    def limits(self) -> Limits:
        """Return the limits of an episode."""
        return self._limits

    def answer(self, plays: Sequence[EpisodeSteps], call: CallMany) -> list[Episode]:
        """Return greedy episodes, sampled together."""
        return play(plays, self._sampler, call, greedy=True)


def _load_tokenizer(tokenizer: str) -> ChatTokenizer:
    """Return the tokenizer; that of a policy trained here renders prompts as in training."""
    from transformers import AutoTokenizer

    try:
        loaded_tokenizer: ChatTokenizer = AutoTokenizer.from_pretrained(tokenizer)
        if (Path(tokenizer) / RECIPE_FILE).is_file():
            recipe = Recipe.read(Path(tokenizer))
            settings = {**recipe.settings, "chat_template": recipe.template}
            return cast(ChatTokenizer, TemplateVariables(loaded_tokenizer, settings))
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]
        raise InputError(
            f"--tokenizer is {tokenizer!r}, which cannot be loaded ({reason}); required: the "
            "folder or name of the served model"
        ) from error
    return loaded_tokenizer
