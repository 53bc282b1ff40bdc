"""The proposers that ask a language model, as a configuration names and sets them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, JsonValue

from evoprompt.errors import InputError
from evoprompt.lm.settings import LmSettings
from evoprompt.plugins.component import AnyComponent, BuildContext, Component

if TYPE_CHECKING:
    from evoprompt.lm import LanguageModel
    from evoprompt.roles import Proposer, Selector


def _name_alone(given: object) -> object:
    return {"name": given} if isinstance(given, str) else given


Named = Annotated[dict[str, JsonValue], BeforeValidator(_name_alone)]
"""A component in a configuration: its ``name`` and its settings, or the name alone."""


class DelegatingSettings(BaseModel, extra="forbid"):
    """Settings of every proposer that may keep training waiting, or fail."""

    background: bool = Field(default=True, description="propose in a thread while training goes on")
    fallback: Named | None = Field(
        default=None, description="a proposer to ask when this one fails, such as sentence-edit"
    )


class LmProposerSettings(DelegatingSettings):
    """Settings of every proposer that asks a language model."""

    lm: LmSettings
    max_words: int | None = Field(
        default=None,
        ge=1,
        description="longest instruction to ask for; null for what the policy has room for",
    )


class ReflectionSettings(LmProposerSettings):
    """Settings of the proposer ``reflection``."""

    episodes: int | None = Field(
        default=None,
        ge=1,
        description="most failed trajectories to show; null for failures_per_request",
    )
    episode_tokens: int = Field(
        default=800, ge=50, description="length of each failed trajectory shown, in tokens"
    )
    program: Path | None = Field(
        default=None, description="compiled DSPy program to reflect with, saved as JSON"
    )


class HistorySettings(LmProposerSettings):
    """Settings of the proposer ``history``."""

    shown: int = Field(default=20, ge=1, description="most instructions to show with scores")


class CrossoverSettings(LmProposerSettings):
    """Settings of the proposers ``guo2024-ga`` and ``guo2024-de``."""

    selector: Named | None = Field(default=None, description="chooses what to cross")


class MixtureSettings(DelegatingSettings):
    """Settings of the proposer ``mixture``."""

    proposers: list[Named] = Field(min_length=1, description="the proposers to choose from")
    lm: LmSettings | None = Field(default=None, description="for those that bring none")
    memory: float = Field(default=0.9, gt=0, le=1, description="how much of a trial is kept")


Settings = TypeVar("Settings", bound=LmProposerSettings)


def _lm_proposer(
    make: Callable[[LanguageModel, Settings, BuildContext], Proposer],
) -> Callable[[Settings, BuildContext], Proposer]:
    """A builder that makes the language model, and wraps what ``make`` builds around it."""

    def build(settings: Settings, context: BuildContext) -> Proposer:
        from evoprompt.lm import LanguageModel

        language = LanguageModel(settings.lm, context.directory, context.spending, context.given)
        return _wrapped(make(language, settings, context), settings, context)

    return build


def _wrapped(proposer: Proposer, settings: DelegatingSettings, context: BuildContext) -> Proposer:
    from evoprompt.plugins import build
    from evoprompt.proposers.background import Background
    from evoprompt.proposers.fallback import Fallback

    if settings.fallback is not None:
        proposer = Fallback(proposer, build("proposer", settings.fallback, context))
    return Background(proposer) if settings.background else proposer


def _reflection(
    language: LanguageModel, settings: ReflectionSettings, context: BuildContext
) -> Proposer:
    from evoprompt.proposers.reflection import Reflection

    return Reflection(
        language,
        settings.max_words,
        settings.episodes,
        settings.episode_tokens,
        settings.program,
    )


def _paraphrase(
    language: LanguageModel, settings: LmProposerSettings, context: BuildContext
) -> Proposer:
    from evoprompt.proposers.paraphrase import Paraphrase

    return Paraphrase(language, settings.max_words)


def _history(language: LanguageModel, settings: HistorySettings, context: BuildContext) -> Proposer:
    from evoprompt.proposers.history import History

    return History(language, settings.max_words, settings.shown)


def _evoprompt_ga(
    language: LanguageModel, settings: CrossoverSettings, context: BuildContext
) -> Proposer:
    from evoprompt.proposers.crossover import EvoPromptGA

    return EvoPromptGA(language, settings.max_words, _selector(settings, context))


def _evoprompt_de(
    language: LanguageModel, settings: CrossoverSettings, context: BuildContext
) -> Proposer:
    from evoprompt.proposers.crossover import EvoPromptDE

    return EvoPromptDE(language, settings.max_words, _selector(settings, context))


def _selector(settings: CrossoverSettings, context: BuildContext) -> Selector | None:
    from evoprompt.plugins import build

    return build("selector", settings.selector, context) if settings.selector else None


def _mixture(settings: MixtureSettings, context: BuildContext) -> Proposer:
    from evoprompt.plugins import build, plugins
    from evoprompt.proposers.mixture import Mixture

    proposers: dict[str, Proposer] = {}
    for given in settings.proposers:
        name = str(given.get("name"))
        if name in proposers:
            raise InputError(
                f"the mixture has {name!r} twice; required: different proposers; drop one"
            )
        fields = plugins().find("proposer", name).component.settings.model_fields
        arm = dict(given)
        if "background" in fields:
            arm.setdefault("background", False)  # the mixture as a whole runs in one thread
        if "lm" in fields and settings.lm is not None:
            arm.setdefault("lm", settings.lm.model_dump(mode="json"))
        proposers[name] = build("proposer", arm, context)
    return _wrapped(Mixture(proposers, settings.memory), settings, context)


def lm_components() -> list[AnyComponent]:
    """Every proposer that asks a language model."""
    return [
        Component(
            "proposer",
            "reflection",
            _lm_proposer(_reflection),
            ReflectionSettings,
            "An LLM analyses failures and rewrites the instruction (paper section 3.2)",
        ),
        Component(
            "proposer",
            "paraphrase",
            _lm_proposer(_paraphrase),
            LmProposerSettings,
            "An LLM says the instruction in other words (APE)",
        ),
        Component(
            "proposer",
            "history",
            _lm_proposer(_history),
            HistorySettings,
            "An LLM continues a list of instructions and their scores (OPRO)",
        ),
        Component(
            "proposer",
            "guo2024-ga",
            _lm_proposer(_evoprompt_ga),
            CrossoverSettings,
            "An LLM crosses and mutates two parents (EvoPrompt, genetic algorithm)",
        ),
        Component(
            "proposer",
            "guo2024-de",
            _lm_proposer(_evoprompt_de),
            CrossoverSettings,
            "An LLM carries differences over to a base (EvoPrompt, differential evolution)",
        ),
        Component(
            "proposer",
            "mixture",
            _mixture,
            MixtureSettings,
            "A bandit over proposers that learns whose offspring get admitted",
        ),
    ]
