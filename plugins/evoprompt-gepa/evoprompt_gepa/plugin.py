"""What evoprompt finds when this distribution is installed."""

from __future__ import annotations

from pydantic import BaseModel, Field

from evoprompt import BuildContext, Component, Proposer, hookimpl
from evoprompt.lm import LmSettings


class GepaSettings(BaseModel, extra="forbid"):
    """Settings of the proposer ``gepa``."""

    lm: LmSettings
    failures: int = Field(3, ge=1, description="failed trajectories shown for one proposal")
    episode_tokens: int = Field(800, ge=100, description="length each of them is shortened to")
    background: bool = Field(True, description="propose in a thread while training goes on")
    prompt_template: str | None = Field(
        None, description="instead of GEPA's own; holds <curr_param> and <side_info>"
    )


def build(settings: GepaSettings, context: BuildContext) -> Proposer:
    """GEPA's reflective mutation with the language model of ``settings``."""
    from evoprompt.lm import LanguageModel
    from evoprompt.proposers.background import Background
    from evoprompt_gepa.reflection import GepaReflection

    proposer = GepaReflection(
        LanguageModel(settings.lm, context.directory, context.spending),
        settings.failures,
        settings.episode_tokens,
        settings.prompt_template,
    )
    return Background(proposer) if settings.background else proposer


@hookimpl
def evoprompt_components() -> list[Component[GepaSettings]]:
    """The proposer ``gepa``."""
    return [
        Component(
            "proposer",
            "gepa",
            build,
            GepaSettings,
            "GEPA's reflective mutation: an LLM rewrites the parent from its failures",
        )
    ]
