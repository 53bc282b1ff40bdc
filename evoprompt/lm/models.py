"""What DSPy's and litellm's own tables say about a model, and the defaults that follow from it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal

from evoprompt.lm.settings import Prices

REASONING_TOKENS = 16_000
"""Default limit of an answer where thinking counts against it, and the least that DSPy accepts."""

PLAIN_TOKENS = 4_096
"""Default limit of an answer of every other model."""


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What is known about a model; a model in no table has no prices and no largest answer.

    Attributes:
        reasons: whether it thinks before it answers, in tokens that count as output.
        largest_answer: most output tokens it may be asked for.
        prices: what it costs.
        endpoint: ``"responses"`` for models that OpenAI serves by its Responses API alone.
    """

    reasons: bool
    largest_answer: int | None
    prices: Prices | None
    endpoint: Literal["chat", "responses"]

    @property
    def max_tokens(self) -> int:
        """The limit of an answer where the settings give none."""
        wanted = REASONING_TOKENS if self.reasons else PLAIN_TOKENS
        return min(wanted, self.largest_answer or wanted)

    @property
    def temperature(self) -> float | None:
        """The temperature where the settings give none; models that reason choose their own."""
        return None if self.reasons else 1.0


def model_card(model: str) -> ModelCard:
    """What the tables say about ``model``, a name such as ``openai/gpt-5-mini``; downloads nothing.

    Raises:
        ModuleNotFoundError: DSPy is not installed.
    """
    use_local_tables()
    import dspy
    from dspy.clients.model_metadata import model_info

    provider, _, name = model.partition("/")
    info: dict[str, Any] = model_info(provider, name) if name else {}
    # DSPy knows OpenAI's reasoning models by name: it gives them a token limit of another name.
    renamed = "max_completion_tokens" in dspy.LM(model).kwargs
    return ModelCard(
        reasons=renamed or info.get("supports_reasoning") is True,
        largest_answer=info.get("max_output_tokens"),
        prices=_prices(info),
        endpoint="responses" if info.get("mode") == "responses" else "chat",
    )


def use_local_tables() -> None:
    """Keeps both libraries from downloading their tables, unless the environment says otherwise."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "true")


def missing_key(connection: Any) -> str | None:
    """The environment variable that ``connection``, a ``dspy.LM``, lacks its key in; None if none.

    Variables are looked at, nothing is sent.
    """
    from dspy.clients.backend_selection import select_backend

    if connection.kwargs.get("api_key"):
        return None
    selection = select_backend(connection)
    if selection.native:
        variable: str | None = selection.resolution.env_key
        return None if variable is None or os.environ.get(variable) else variable
    import litellm

    missing: list[str] = litellm.validate_environment(model=connection.model)["missing_keys"]
    return missing[0] if missing else None


def _prices(info: dict[str, Any]) -> Prices | None:
    inputs, outputs = info.get("input_cost_per_token"), info.get("output_cost_per_token")
    if inputs is None or outputs is None:
        return None
    return Prices(input=float(inputs) * 1e6, output=float(outputs) * 1e6)
