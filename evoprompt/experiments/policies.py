"""Whom an evaluation asks where no trainer holds the policy: a model behind a server."""

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
        name, address = address_of(model, base_url)
        self._model = name.removeprefix(OPENAI)
        self._limits = limits_of(task)
        self._named = tokenizer
        kind = ChatEndpoint if tokenizer is None else TokenEndpoint
        self._sampler = kind(self._model, address)

    @property
    def name(self) -> str:
        """What the server calls it."""
        return self._model

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
