"""What ships with evoprompt, registered through the same hook as everybody else's."""

from __future__ import annotations

from collections.abc import Sequence

from evoprompt.attributors import Adjusted, WindowMean
from evoprompt.hookspecs import hookimpl
from evoprompt.plugins import named
from evoprompt.populations import SteadyPopulation
from evoprompt.proposers.combinators import Mixture
from evoprompt.proposers.published import EvoPromptDE, EvoPromptGA, History, Paraphrase
from evoprompt.proposers.reflection import Reflection
from evoprompt.proposers.sentences import (
    SentenceBlind,
    SentenceEdit,
    SentenceHistory,
    SentenceParaphrase,
    SentenceRandom,
)
from evoprompt.race import Race
from evoprompt.roles import Component
from evoprompt.selectors import (
    Best,
    Lexicase,
    Nsga2,
    Roulette,
    Softmax,
    Thompson,
    TopTwo,
    Tournament,
)
from evoprompt.verifiers import ReplayTopN, Unverified


@hookimpl
def evoprompt_components() -> Sequence[type[Component] | tuple[str, type[Component]]]:
    """Everything that ships with evoprompt."""
    return [
        Reflection,
        Paraphrase,
        History,
        named("guo2024-ga", EvoPromptGA),
        named("guo2024-de", EvoPromptDE),
        Mixture,
        SentenceEdit,
        SentenceBlind,
        SentenceRandom,
        SentenceParaphrase,
        SentenceHistory,
        Softmax,
        Best,
        Tournament,
        Thompson,
        TopTwo,
        Roulette,
        Nsga2,
        Lexicase,
        WindowMean,
        Adjusted,
        ReplayTopN,
        Race,
        Unverified,
        named("steady", SteadyPopulation),
    ]
