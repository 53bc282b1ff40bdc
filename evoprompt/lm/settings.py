"""Settings of a language model, and facts about it from the tables of DSPy and litellm."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from evoprompt.lm.keys import require_address
from evoprompt.support.credentials import masked_data
from evoprompt.support.errors import InputError
from evoprompt.support.validation import CheckedSettings

_FILES = "files/"
_DAY = 86_400.0  # seconds

Temperature = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Prices(CheckedSettings, frozen=True):
    """Prices in USD per million tokens."""

    input: float = Field(ge=0, allow_inf_nan=False, description="of input tokens")
    output: float = Field(ge=0, allow_inf_nan=False, description="of output tokens")

    def usd(self, input_tokens: int, output_tokens: int) -> float:
        """Return the cost of this many tokens, in USD."""
        return (input_tokens * self.input + output_tokens * self.output) / 1e6


class BudgetSettings(CheckedSettings, frozen=True):
    """Hard limits over all calls of a run, retries included; None for no limit."""

    calls: int | None = Field(default=None, ge=0, description="requests sent")
    tokens: int | None = Field(default=None, ge=0, description="input and output tokens")
    usd: float | None = Field(default=None, ge=0, allow_inf_nan=False, description="money in USD")


class LmSettings(CheckedSettings, frozen=True):
    """Settings of a language model, by its name in DSPy and litellm.

    Keys come only from the environment: the provider's own variable (``OPENAI_API_KEY``), or the
    one that ``api_key_env`` names. The provider's own key is sent to the provider's own address
    only, so a server at ``api_base`` gets the key that ``api_key_env`` names, or none. The name of
    a model alone is accepted as settings: ``lm: openai/gpt-4.1-mini``.
    """

    model: str = Field(
        min_length=1,
        description="provider/name, such as openai/gpt-4.1-mini; files/FOLDER for a person",
    )
    api_base: str | None = Field(
        default=None, description="URL of a server that speaks its protocol"
    )
    api_key_env: str | None = Field(
        default=None,
        description="environment variable that holds the key of this server; by default the "
        "provider's own, which goes to the provider's address alone",
    )
    temperature: Temperature | Literal["auto"] | None = Field(
        default="auto",
        description="auto for what suits the model; null sends none, for models that take none",
    )
    max_tokens: int | None = Field(
        default=None, ge=1, description="most tokens of one answer; null for what suits the model"
    )
    timeout: float = Field(default=60.0, gt=0, description="seconds without a byte until a retry")
    deadline: float = Field(
        default=180.0,
        gt=0,
        description="seconds for one answer, retries included; a day with files/FOLDER",
    )
    retries: int = Field(
        default=3, ge=0, description="after rate limits, server and network errors"
    )
    prices: Prices | None = Field(
        default=None, description="if the library does not know the model"
    )
    budget: BudgetSettings = Field(
        default=BudgetSettings(), description="hard limits over all calls of a run"
    )
    record: Path | None = Field(
        default=None, description="file in the run's directory that keeps every exchange"
    )
    replay: Path | None = Field(
        default=None, description="recording to answer from, without network"
    )

    @model_validator(mode="before")
    @classmethod
    def _read(cls, settings: Any) -> Any:
        read = {"model": settings} if isinstance(settings, str) else settings
        is_person = isinstance(read, Mapping) and str(read.get("model")).startswith(_FILES)
        return {"deadline": _DAY, **read} if is_person else read

    @property
    def answers(self) -> str:
        """Return the folder of a person's answers, in the run's directory; empty for a model."""
        return self.model.removeprefix(_FILES) if self.model.startswith(_FILES) else ""

    @model_validator(mode="after")
    def _check_together(self) -> LmSettings:
        if self.api_base is not None and masked_data(self.api_base) != self.api_base:
            raise InputError(
                f"lm.api_base is {masked_data(self.api_base)}, with a credential in it; "
                "required: a URL without one, as settings are written to files; put it into the "
                "environment variable that api_key_env names"
            )
        if self.api_base is not None:
            require_address(self.api_base, "lm.api_base")
        if self.record is not None and self.replay is not None:
            raise InputError(
                f"lm has record {self.record} and replay {self.replay}; required: one of them"
            )
        return self


REASONING_TOKENS = 16_000
"""Default limit of an answer that includes thinking, and the minimum that DSPy accepts."""

PLAIN_TOKENS = 4_096
"""Default limit of an answer of any model without thinking."""


@dataclass(frozen=True, slots=True)
class ModelCard:
    """Facts about a model; a model in no table has no prices and no largest answer.

    Attributes:
        reasons: whether it thinks before its answer, in tokens that count as output.
        largest_answer: maximum number of output tokens that a request may set.
        prices: its prices.
        endpoint: ``"responses"`` for models that OpenAI serves by its Responses API alone.
    """

    reasons: bool
    largest_answer: int | None
    prices: Prices | None
    endpoint: Literal["chat", "responses"]

    @property
    def max_tokens(self) -> int:
        """Return the limit of an answer if the settings have none."""
        limit = REASONING_TOKENS if self.reasons else PLAIN_TOKENS
        return min(limit, self.largest_answer or limit)

    @property
    def temperature(self) -> float | None:
        """Return the temperature if the settings have none; None for models that reason."""
        return None if self.reasons else 1.0


def model_card(model: str) -> ModelCard:
    """Return the tables' facts about ``model``, such as ``openai/gpt-5-mini``; download nothing.

    Raises:
        ModuleNotFoundError: DSPy is not installed.
    """
    use_local_tables()
    import dspy
    from dspy.clients.model_metadata import model_info

    provider, _, name = model.partition("/")
    info: dict[str, Any] = model_info(provider, name) if name else {}
    # DSPy recognizes OpenAI's reasoning models by name: their token limit has a different name.
    renamed = "max_completion_tokens" in dspy.LM(model).kwargs
    return ModelCard(
        reasons=renamed or info.get("supports_reasoning") is True,
        largest_answer=info.get("max_output_tokens"),
        prices=_prices(info),
        endpoint="responses" if info.get("mode") == "responses" else "chat",
    )


def use_local_tables() -> None:
    """Keep both libraries from downloading their tables, unless the environment overrides that."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "true")


def missing_key(connection: Any) -> str | None:
    """Return the environment variable that should hold the key of a ``dspy.LM``; None if it does.

    Only variables are read; nothing is sent.
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
