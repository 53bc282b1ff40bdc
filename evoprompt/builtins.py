"""Components that ship with evoprompt, registered through the hook that plugins use.

The components of an engine that its configuration alone decides are chosen here as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from evoprompt.attributors import Adjusted, WindowMean
from evoprompt.components import Component
from evoprompt.config import EngineConfig
from evoprompt.hookspecs import hookimpl
from evoprompt.plugins import named
from evoprompt.populations import SteadyPopulation
from evoprompt.proposers.published import EvoPromptDE, EvoPromptGA, History, Paraphrase
from evoprompt.proposers.reflection import Reflection
from evoprompt.proposers.sentences import (
    SentenceBlind,
    SentenceEdit,
    SentenceRandom,
)
from evoprompt.roles import Attributor, Selector, Verifier
from evoprompt.selectors import (
    Deap,
    Softmax,
)
from evoprompt.verifiers import InTraining, ReplayTopN, Unverified


@hookimpl
def evoprompt_components() -> Sequence[type[Component] | tuple[str, type[Component]]]:
    """Return all components that ship with evoprompt."""
    return [
        Reflection,
        Paraphrase,
        History,
        named("guo2024-ga", EvoPromptGA),
        named("guo2024-de", EvoPromptDE),
        SentenceEdit,
        SentenceBlind,
        SentenceRandom,
        Softmax,
        Deap,
        WindowMean,
        Adjusted,
        ReplayTopN,
        InTraining,
        Unverified,
        named("steady", SteadyPopulation),
    ]


def sampler_of(config: EngineConfig) -> Selector:
    """Return the sampler that draws the candidate of each question by its weight (Eq. 4)."""
    return Softmax(config.reward_temperature)


def attributor_of(config: EngineConfig) -> Attributor:
    """Return the attributor that turns rewards into weights, as ``config.weights`` says."""
    return WindowMean(config.window) if config.weights == "window" else Adjusted()


def verifier_of(config: EngineConfig) -> Verifier:
    """Return the verifier that ``config.accept`` names."""
    if config.accept == "all":
        return Unverified()
    if config.accept == "in-training":
        return InTraining()
    return ReplayTopN(config.verify_questions, config.accept)
