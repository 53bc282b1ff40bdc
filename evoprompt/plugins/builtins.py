"""The components that evoprompt ships with, registered through the same hook as everybody else's.

Whatever is slow to import is imported when a component is built, not when it is listed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, Field

from evoprompt.hookspecs import hookimpl
from evoprompt.plugins.component import AnyComponent, BuildContext, Component, NoSettings
from evoprompt.proposers.components import lm_components
from evoprompt.proposers.sentence_components import sentence_components

if TYPE_CHECKING:
    from evoprompt.roles import Attributor, Population, Selector, Verifier


class SoftmaxSettings(BaseModel, extra="forbid"):
    """Settings of the selector ``softmax``."""

    temperature: float = Field(0.2, gt=0, allow_inf_nan=False, description="tau of Eq. 4")


class TournamentSettings(BaseModel, extra="forbid"):
    """Settings of the selector ``tournament``."""

    size: int = Field(3, ge=1, description="candidates that meet in one tournament")


class TopTwoSettings(BaseModel, extra="forbid"):
    """Settings of the selector ``top-two``."""

    challenger: float = Field(0.5, ge=0, le=1, description="share of draws of the second best")


class Nsga2Settings(BaseModel, extra="forbid"):
    """Settings of the selector ``nsga2``."""

    objectives: dict[str, float] = Field(
        min_length=1,
        description="metrics to rank by besides the weight; positive: more is better",
    )


class WindowMeanSettings(BaseModel, extra="forbid"):
    """Settings of the attributor ``window-mean``."""

    window: int = Field(5, ge=1, description="n of Eq. 6, in steps")


class AdjustedSettings(BaseModel, extra="forbid"):
    """Settings of the attributor ``adjusted``."""

    records: int = Field(4096, ge=0, description="questions whose difficulty is remembered")


class ReplayTopNSettings(BaseModel, extra="forbid"):
    """Settings of the verifier ``replay-top-n``."""

    questions: int = Field(200, ge=1, description="|D_B|, questions per round")
    accept: Literal["top", "not-worse"] = Field(
        "not-worse", description="the best of the round, or only those not worse than a parent"
    )


class RaceSettings(BaseModel, extra="forbid"):
    """Settings of the verifier ``race``."""

    questions: int = Field(200, ge=1, description="most questions per child")
    error: float = Field(
        0.2, gt=0, lt=1, description="the greatest chance of a wrong admission per generation"
    )
    looks: int = Field(5, ge=1, description="batches, after each of which some are decided")


def _softmax(settings: SoftmaxSettings, context: BuildContext) -> Selector:
    from evoprompt.selectors import Softmax

    return Softmax(settings.temperature)


def _plain_deap(operator: str) -> Callable[[NoSettings, BuildContext], Selector]:
    def build(settings: NoSettings, context: BuildContext) -> Selector:
        from evoprompt.selectors import Deap

        return Deap(operator)

    return build


def _tournament(settings: TournamentSettings, context: BuildContext) -> Selector:
    from evoprompt.selectors import Deap

    return Deap("tournament", {"tournsize": settings.size})


def _thompson(settings: NoSettings, context: BuildContext) -> Selector:
    from evoprompt.selectors import Thompson

    return Thompson()


def _top_two(settings: TopTwoSettings, context: BuildContext) -> Selector:
    from evoprompt.selectors import TopTwo

    return TopTwo(settings.challenger)


def _nsga2(settings: Nsga2Settings, context: BuildContext) -> Selector:
    from evoprompt.selectors import Deap

    return Deap("nsga2", objectives=settings.objectives)


def _adjusted(settings: AdjustedSettings, context: BuildContext) -> Attributor:
    from evoprompt.attributors import Adjusted

    return Adjusted(settings.records)


def _window_mean(settings: WindowMeanSettings, context: BuildContext) -> Attributor:
    from evoprompt.attributors import WindowMean

    return WindowMean(settings.window)


def _replay_top_n(settings: ReplayTopNSettings, context: BuildContext) -> Verifier:
    from evoprompt.verifiers import ReplayTopN

    return ReplayTopN(settings.questions, settings.accept)


def _race(settings: RaceSettings, context: BuildContext) -> Verifier:
    from evoprompt.verifiers import Race

    return Race(settings.questions, settings.error, settings.looks)


def _unverified(settings: NoSettings, context: BuildContext) -> Verifier:
    from evoprompt.verifiers import Unverified

    return Unverified()


def _steady(settings: NoSettings, context: BuildContext) -> Population:
    from evoprompt.populations import SteadyPopulation

    return SteadyPopulation()


@hookimpl
def evoprompt_components() -> list[AnyComponent]:
    """Everything that ships with evoprompt."""
    return [
        *sentence_components(),
        *lm_components(),
        Component(
            "selector",
            "softmax",
            _softmax,
            SoftmaxSettings,
            "Draws in proportion to exp(weight / temperature) (paper Eq. 4)",
        ),
        Component(
            "selector",
            "best",
            _plain_deap("best"),
            description="The highest weights (DEAP selBest)",
        ),
        Component(
            "selector",
            "tournament",
            _tournament,
            TournamentSettings,
            "The best of a few drawn at random, again and again (DEAP selTournament)",
        ),
        Component(
            "selector",
            "thompson",
            _thompson,
            description="Draws as often as a candidate may be the best (Thompson sampling)",
        ),
        Component(
            "selector",
            "top-two",
            _top_two,
            TopTwoSettings,
            "Thompson sampling that also draws the second best (top-two sampling)",
        ),
        Component(
            "selector",
            "roulette",
            _plain_deap("roulette"),
            description="Draws in proportion to the weight (DEAP selRoulette)",
        ),
        Component(
            "selector",
            "nsga2",
            _nsga2,
            Nsga2Settings,
            "The Pareto fronts of weight and other metrics (DEAP selNSGA2)",
        ),
        Component(
            "selector",
            "lexicase",
            _plain_deap("lexicase"),
            description="The best on questions met in random order (DEAP selLexicase)",
        ),
        Component(
            "attributor",
            "window-mean",
            _window_mean,
            WindowMeanSettings,
            "Mean reward over the last steps a candidate was drawn at (paper Eq. 6)",
        ),
        Component(
            "attributor",
            "adjusted",
            _adjusted,
            AdjustedSettings,
            "Mean reward over the whole life, without the difficulty of questions and steps",
        ),
        Component(
            "verifier",
            "replay-top-n",
            _replay_top_n,
            ReplayTopNSettings,
            "Admits the best on questions of the replay buffer (paper section 3.2)",
        ),
        Component(
            "verifier",
            "race",
            _race,
            RaceSettings,
            "Admits who is shown to be better than its parent, at a stated error rate",
        ),
        Component(
            "verifier",
            "unverified",
            _unverified,
            description="Admits proposals as they come, without a rollout (ablation)",
        ),
        Component(
            "population",
            "steady",
            _steady,
            description="Candidates live until they are pruned",
        ),
    ]
