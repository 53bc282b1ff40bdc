"""The proposers over a sentence bank, as a configuration names and sets them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, Field

from evoprompt.errors import InputError
from evoprompt.plugins.component import AnyComponent, BuildContext, Component

if TYPE_CHECKING:
    from evoprompt.agents.tasks import Task
    from evoprompt.proposers.bank import SentenceBank
    from evoprompt.roles import Proposer


class SentenceSettings(BaseModel, extra="forbid"):
    """Settings of the proposers over a sentence bank."""

    most_sentences: int = Field(8, ge=1, description="beside those that every instruction keeps")
    without: list[str] = Field([], description="ideas of the task's bank to leave out")


class SentenceEditSettings(SentenceSettings):
    """Settings of the proposer ``sentence-edit``."""

    crossover: float = Field(
        0.3, ge=0, le=1, description="chance of a crossover when there are several parents"
    )


class SentenceBlindSettings(SentenceEditSettings):
    """Settings of the proposer ``sentence-blind``."""

    ideas: Literal["all", "remedies", "deranged"] = Field(
        "all",
        description="of the whole bank, the remedies of all diagnoses together, or those of "
        "another diagnosis than the one that was made",
    )


def _task_and_bank(settings: SentenceSettings, context: BuildContext) -> tuple[Task, SentenceBank]:
    task = context.task
    if task is None or task.bank is None:
        lacking = "there is no task" if task is None else f"{type(task).__name__} has none"
        raise InputError(
            f"the proposer edits sentences of the task's bank, and {lacking}; required: a task "
            "with a sentence bank, or a proposer that writes freely; choose one that asks a "
            "language model, engine.proposer: {name: reflection, lm: {model: openai/gpt-5-mini}}, "
            "or train without evolving, arms: [static]"
        )
    return task, task.bank.without(settings.without)


def _sentence_edit(settings: SentenceEditSettings, context: BuildContext) -> Proposer:
    from evoprompt.proposers.sentence_edit import SentenceEdit

    task, bank = _task_and_bank(settings, context)
    return SentenceEdit(bank, task.diagnose, settings.most_sentences, settings.crossover)


def _sentence_blind(settings: SentenceBlindSettings, context: BuildContext) -> Proposer:
    from evoprompt.proposers.sentence_blind import SentenceBlind

    task, bank = _task_and_bank(settings, context)
    return SentenceBlind(
        bank, task.diagnose, settings.ideas, settings.most_sentences, settings.crossover
    )


def _sentence_random(settings: SentenceSettings, context: BuildContext) -> Proposer:
    from evoprompt.proposers.sentence_baselines import SentenceRandom

    return SentenceRandom(_task_and_bank(settings, context)[1], settings.most_sentences)


def _sentence_paraphrase(settings: SentenceSettings, context: BuildContext) -> Proposer:
    from evoprompt.proposers.sentence_baselines import SentenceParaphrase

    return SentenceParaphrase(_task_and_bank(settings, context)[1], settings.most_sentences)


def _sentence_history(settings: SentenceSettings, context: BuildContext) -> Proposer:
    from evoprompt.proposers.sentence_baselines import SentenceHistory

    return SentenceHistory(_task_and_bank(settings, context)[1], settings.most_sentences)


def sentence_components() -> list[AnyComponent]:
    """Those that edit sentences of the task's bank; no language model."""
    return [
        Component(
            "proposer",
            "sentence-edit",
            _sentence_edit,
            SentenceEditSettings,
            "Reads diagnosed failures and edits sentences of the task's bank; no LLM",
        ),
        Component(
            "proposer",
            "sentence-blind",
            _sentence_blind,
            SentenceBlindSettings,
            "Makes the same edits without reading failures, as a control",
        ),
        Component(
            "proposer",
            "sentence-random",
            _sentence_random,
            SentenceSettings,
            "Edits sentences at random, as a control",
        ),
        Component(
            "proposer",
            "sentence-paraphrase",
            _sentence_paraphrase,
            SentenceSettings,
            "Rewords and reorders sentences and says nothing new, as a control",
        ),
        Component(
            "proposer",
            "sentence-history",
            _sentence_history,
            SentenceSettings,
            "Favours sentences of what scored well before, as a control",
        ),
    ]
