"""Task ``search-qa-open``: its settings, and its episodes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

from evoprompt_retrieval.plan import search_server
from pydantic import BaseModel, Field, JsonValue

from evoprompt.agents import ChatTokenizer, Episode, Limits, Protocol
from evoprompt.agents.tasks import Need, Score, Task
from evoprompt.components import BuildContext
from evoprompt.hosting.prompts import Placement
from evoprompt.support.errors import InputError
from evoprompt.types import Question, Trajectory
from evoprompt_search_qa import protocol
from evoprompt_search_qa.bank import BANK
from evoprompt_search_qa.diagnosis import diagnose
from evoprompt_search_qa.evaluation import MAIN_METRIC, score
from evoprompt_search_qa.methods.steps import methods
from evoprompt_search_qa.open.questions import SOURCE, read_questions
from evoprompt_search_qa.open.tool import SearchTool
from evoprompt_search_qa.requirements import questions

SEED = (
    "Answer the question below. Whenever new information reaches you, reason about it first, "
    "inside <think> and </think>. If something you need to know is missing, look it up: write a "
    "query inside <search> and </search>, and the best passages found will be shown to you inside "
    "<information> and </information>. You may do so several times. When nothing is missing any "
    "more, write the final answer inside <answer> and </answer>: the answer alone, as short as "
    "possible and without an explanation, for example <answer> Beijing </answer>."
)
"""Names every tag, the order of thinking and searching, and the form of the answer."""


class OpenQaSettings(BaseModel, frozen=True, extra="forbid"):
    """Settings of the task.

    Attributes:
        model: name on the Hugging Face hub, or folder, of the causal language model to train; empty
            if ``host.model`` names one, or the model is frozen and behind a server.
        train: parquet file of the training questions.
        validation: parquet file of the questions for curves and for choosing settings.
        test: parquet file of the questions for results.
        retriever: address of the search server.
        prompt_tokens: most tokens of instruction and question, chat template included.
        train_questions: number of training questions to use, the first ones; null for all.
        validation_questions: the same of validation.
        test_questions: the same of test.
        topk: passages a search.
        searches: most searches an episode; a further one ends it without an answer.
        turn_tokens: most tokens the policy may write before a search or answer.
        observation_tokens: most tokens of passages in an observation.
        placement: whether the instruction precedes the question in the user's message (``user``),
            or is the system message (``append`` or ``replace``, the same here); plain text for a
            model without a chat template.
        invalid: whether the policy may try again after an action that neither searches nor answers,
            which then counts as a search (``retry``, Search-R1's agent), or the episode ends.
        instruction: the seed; by default one in the manner of Search-R1.
    """

    model: str = ""
    train: Path
    validation: Path
    test: Path
    retriever: str = "http://127.0.0.1:8000"
    prompt_tokens: int = Field(default=4096, ge=1)
    train_questions: int | None = Field(default=None, ge=1)
    validation_questions: int | None = Field(default=None, ge=1)
    test_questions: int | None = Field(default=None, ge=1)
    topk: int = Field(default=3, ge=1)
    searches: int = Field(default=4, ge=1)
    turn_tokens: int = Field(default=500, ge=1)
    observation_tokens: int = Field(default=500, ge=32)
    placement: Placement = "user"
    invalid: Literal["retry", "end"] = "retry"
    instruction: str = Field(default=SEED, min_length=1)

    @property
    def limits(self) -> Limits:
        """Return the limits of an episode."""
        return Limits(self.searches, self.turn_tokens, self.observation_tokens)


class OpenQa(Task):
    """Open questions, a search server, and any causal language model.

    Args:
        settings: of the task.
    """

    Settings = OpenQaSettings
    main_metric = MAIN_METRIC
    required = (protocol.SEARCH, protocol.END_SEARCH, protocol.ANSWER, protocol.END_ANSWER)
    bank = BANK
    call_seconds = 0.02  # in all of Wikipedia by IVF512,PQ96x4fs,RFlat, as docs/search-qa.md builds

    @classmethod
    def build(cls, settings: OpenQaSettings, context: BuildContext) -> OpenQa:
        """Return the task that ``settings`` describe."""
        return cls(settings)

    def __init__(self, settings: OpenQaSettings) -> None:
        self.settings = settings
        self.seed_instructions = (settings.instruction,)
        self.limits = settings.limits
        self.placement = settings.placement
        self.methods = methods(settings.placement)
        defaults: dict[str, JsonValue] = {"prompt_tokens": settings.prompt_tokens}
        if settings.model:
            defaults["model"] = settings.model
        self.host_defaults = {"trl": defaults, "verl": defaults}

    def protocol(self, tokenizer: ChatTokenizer) -> Protocol:
        """Return the protocol of Search-R1's tags."""
        return protocol.RETRYING if self.settings.invalid == "retry" else protocol.SEARCHING

    @cached_property
    def _splits(self) -> dict[str, tuple[Question, ...]]:
        return {}

    def questions(self, split: str) -> tuple[Question, ...]:
        """Return the questions of ``split``.

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

    def caller(self, split: str) -> SearchTool:
        """Return the caller of the search server."""
        return self._search

    @cached_property
    def _search(self) -> SearchTool:
        return SearchTool(self.settings.retriever, self.settings.topk)

    def needs(self) -> Sequence[Need]:
        """Return the needs of the three files of questions, and of the search server."""
        chosen = self.settings
        return [
            questions("train", chosen.train),
            questions("validation", chosen.validation),
            questions("test", chosen.test),
            search_server(chosen.retriever),
        ]

    def score(self, episode: Episode, question: Question) -> Score:
        """Score by exact match; the kinds are the data sources."""
        return score(episode, question, str(question.row[SOURCE]))

    def diagnose(self, trajectory: Trajectory) -> Sequence[str]:
        """Return the diagnoses of a failed trajectory; see ``diagnosis.py``."""
        return diagnose(trajectory)
