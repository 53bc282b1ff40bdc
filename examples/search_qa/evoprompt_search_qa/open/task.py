"""The task ``search-qa-open``: what can be chosen, and how each host trains on it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from pydantic import Field

from evoprompt.errors import InputError
from evoprompt.proposers.bank import SentenceBank
from evoprompt.render import PLACEMENTS, Render
from evoprompt.tasks import Headline, Plan, Trainee, Trial
from evoprompt.types import Question, Trajectory
from evoprompt_search_qa import bank, protocol
from evoprompt_search_qa.diagnosis import diagnose
from evoprompt_search_qa.evaluation import HEADLINE
from evoprompt_search_qa.open.agent import AgentSettings
from evoprompt_search_qa.open.questions import read_questions


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


class OpenQa:
    """Open questions with a search server.

    Args:
        settings: what was chosen.
    """

    def __init__(self, settings: OpenQaSettings) -> None:
        self.settings = settings

    @property
    def headline(self) -> Headline:
        """Exact match."""
        return HEADLINE

    @property
    def seed_instructions(self) -> Sequence[str]:
        """The one instruction to start from."""
        return [self.settings.instruction]

    @property
    def required(self) -> Sequence[str]:
        """The tags that the policy has to be told of."""
        return [protocol.SEARCH, protocol.END_SEARCH, protocol.ANSWER, protocol.END_ANSWER]

    @property
    def bank(self) -> SentenceBank:
        """The sentences for proposers that work without an LLM."""
        return bank.sentence_bank()

    @property
    def render(self) -> Render:
        """Places an instruction in the prompt of a question."""
        return PLACEMENTS[self.settings.placement]

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

    def diagnose(self, trajectory: Trajectory) -> Sequence[str]:
        """What went wrong in a failed trajectory; see ``diagnosis.py``."""
        return diagnose(trajectory)

    def plan(self, host: str, trial: Trial) -> Plan | None:
        """What a trial would do and need, told before anything is loaded.

        Raises:
            InputError: the host settings are wrong.
        """
        if host == "trl":
            from evoprompt_search_qa.open.plan import plan

            return plan(self, trial)
        if host == "verl":
            from evoprompt_search_qa.verl.plan import plan as plan_verl

            return plan_verl(self, trial)
        return None

    def prepare(self, host: str, trial: Trial) -> Trainee:
        """The policy in the trainer of ``host``, ready to be trained.

        Raises:
            InputError: the task does not support the host, or something it needs is missing.
        """
        if host == "trl":
            from evoprompt_search_qa.open.trl import OpenTrlTrainee

            return OpenTrlTrainee(self, trial)
        if host == "verl":
            from evoprompt_search_qa.verl.open import prepare

            return prepare(self, trial)
        raise InputError(f"host is {host!r}; required: 'trl' or 'verl'; change host.name")
