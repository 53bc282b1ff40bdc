"""Settings of a gateway."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from evoprompt.hosting.prompts import Placement
from evoprompt.lm.settings import BudgetSettings, Prices
from evoprompt.support.validation import CheckedSettings


class GatewaySettings(CheckedSettings, frozen=True):
    """Settings of a gateway: its addresses, the size of a step, and its budget."""

    upstream: str = Field(
        pattern=r"^https?://[^\s#]+$", description="base URL of a server like OpenAI's"
    )
    directory: Path = Field(description="for all that is kept; the same one goes on")
    rollouts: int = Field(ge=2, description="conversations of a group, one visit to a question")
    groups: int = Field(default=32, ge=1, description="that make a step of the engine")
    timeout: float = Field(default=3600.0, gt=0, description="seconds until a silent group is over")
    placement: Placement = Field(
        default="append",
        description="of the instruction: after the agent's own system message, in its place, or "
        "before the first user message",
    )
    upstreams: tuple[str, ...] = Field(
        default=(),
        description="base URLs that clients may name, over HTTP, for conversations of their own; "
        "each allows what is below it",
    )
    hosts: tuple[str, ...] = Field(
        default=(),
        description="further names of this machine in requests, beside addresses and localhost",
    )
    host: str = Field(default="127.0.0.1", description="to listen at")
    port: int = Field(default=0, ge=0, le=65_535, description="to listen at; 0 for a free one")
    key: str | None = Field(
        default=None,
        description="environment variable that holds the upstream's key, which no agent sees; by "
        "default OPENAI_API_KEY or ANTHROPIC_API_KEY for an upstream at this provider's address, "
        "and no key for any other upstream",
    )
    budget: BudgetSettings = Field(
        default=BudgetSettings(), description="hard limits of what the upstream costs"
    )
    prices: Prices | None = Field(default=None, description="of its model, for a limit in USD")
