"""The task ``search-qa-open``: what can be chosen, and how it is played."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from evoprompt_retrieval.plan import search_server
from pydantic import Field, JsonValue

from evoprompt.agents import ChatTokenizer, Episode, Protocol
from evoprompt.agents.tasks import Need, Score, Task
from evoprompt.errors import InputError
from evoprompt.roles import BuildContext
from evoprompt.types import Question, Trajectory
from evoprompt_search_qa import protocol
from evoprompt_search_qa.bank import sentence_bank
from evoprompt_search_qa.diagnosis import diagnose
from evoprompt_search_qa.evaluation import HEADLINE, score
from evoprompt_search_qa.methods.english import english
from evoprompt_search_qa.methods.steps import methods
from evoprompt_search_qa.open.agent import AgentSettings
from evoprompt_search_qa.open.questions import SOURCE, read_questions
from evoprompt_search_qa.open.tool import SearchTool
from evoprompt_search_qa.requirements import questions
from evoprompt_search_qa.tool import SearchCaller


class OpenQaSettings(AgentSettings):
    """What can be chosen about the task, beside the agent.

    Attributes:
        model: name on the Hugging Face hub, or folder, of the causal language model to train.
        train: parquet file of the training questions.
        validation: parquet file of the questions for curves and for choosing settings.
        test: parquet file of the questions for results.
        retriever: address of the search server.
        prompt_tokens: most tokens of instruction and question, chat template included.
        train_questions: number of training questions to use, the first ones; null for all.
        validation_questions: the same of validation.
        test_questions: the same of test.
    """

    model: str = Field(min_length=1)
    train: Path
    validation: Path
    test: Path
    retriever: str = "http://127.0.0.1:8000"
    prompt_tokens: int = Field(default=4096, ge=1)
    train_questions: int | None = Field(default=None, ge=1)
    validation_questions: int | None = Field(default=None, ge=1)
    test_questions: int | None = Field(default=None, ge=1)


class OpenQa(Task):
    """Open questions, a search server, and any causal language model.

    Args:
        settings: what was chosen.
    """

    Settings = OpenQaSettings
    headline = HEADLINE
    required = (protocol.SEARCH, protocol.END_SEARCH, protocol.ANSWER, protocol.END_ANSWER)
    bank = sentence_bank()

    @classmethod
    def build(cls, settings: OpenQaSettings, context: BuildContext) -> OpenQa:
        """Makes the task as ``settings`` describe it."""
        return cls(settings)

    def __init__(self, settings: OpenQaSettings) -> None:
        self.settings = settings
        self.seed_instructions = (settings.instruction,)
        self.limits = settings.limits
        self.placement = settings.placement
        self.methods = methods(english(settings))
        own: dict[str, JsonValue] = {
            "model": settings.model,
            "prompt_tokens": settings.prompt_tokens,
        }
        self.host_defaults = {"trl": own, "verl": own}

    def protocol(self, tokenizer: ChatTokenizer) -> Protocol:
        """Search-R1's tags."""
        return protocol.SEARCHING

    @cached_property
    def _splits(self) -> dict[str, tuple[Question, ...]]:
        return {}

    def questions(self, split: str) -> tuple[Question, ...]:
        """The questions of ``split``.

        Raises:
            InputError: there is no such split, or its file cannot be used.
        """
        files = {
            "train": (self.settings.train, self.settings.train_questions),
            "validation": (self.settings.validation, self.settings.validation_questions),
            "test": (self.settings.test, self.settings.test_questions),
        }
        if split not in files:
            raise InputError(f"split is {split!r}; required: one of {', '.join(files)}; choose one")
        if split not in self._splits:
            self._splits[split] = read_questions(*files[split])
        return self._splits[split]

    def caller(self, split: str) -> SearchCaller:
        """Asks the search server."""
        return SearchCaller(self._search, protocol.numbered, self._search.one)

    @cached_property
    def _search(self) -> SearchTool:
        return SearchTool(self.settings.retriever, self.settings.topk)

    def needs(self) -> Sequence[Need]:
        """The three files of questions, and the search server."""
        chosen = self.settings
        return [
            questions("train", chosen.train),
            questions("validation", chosen.validation),
            questions("test", chosen.test),
            search_server(chosen.retriever),
        ]

    def score(self, episode: Episode, question: Question) -> Score:
        """Exact match; the strata are the data sources."""
        return score(episode, question, str(question.row[SOURCE]))

    def diagnose(self, trajectory: Trajectory) -> Sequence[str]:
        """What went wrong in a failed trajectory; see ``diagnosis.py``."""
        return diagnose(trajectory)
