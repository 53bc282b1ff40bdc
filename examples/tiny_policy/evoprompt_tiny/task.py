"""What tasks for tiny policies have in common: splits, scoring, and who samples."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from evoprompt.agents import Episode, Sampler
from evoprompt.agents.tasks import Headline, Score, Task
from evoprompt.errors import InputError
from evoprompt.types import Question

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

STRATUM = "stratum"
"""Key of a question's row with the stratum that it belongs to."""


class SplitSizes(BaseModel):
    """How many questions a task has.

    Attributes:
        train: training questions.
        validation: validation questions, for curves and for choosing settings.
        test: test questions, for results alone.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: int = Field(default=600, ge=1)
    validation: int = Field(default=200, ge=1)
    test: int = Field(default=300, ge=1)

    @property
    def sizes(self) -> dict[str, int]:
        """Number of questions by split, in the order in which they are drawn."""
        return {"test": self.test, "validation": self.validation, "train": self.train}


class NumberTask(Task):
    """A task whose answers are numbers, for a policy that comes along."""

    headline = Headline("accuracy", "share solved")

    @property
    @abstractmethod
    def splits(self) -> Mapping[str, tuple[Question, ...]]:
        """The questions by split, each with one answer and, in its row, a ``"stratum"``."""

    def questions(self, split: str) -> tuple[Question, ...]:
        """The questions of ``split``.

        Raises:
            InputError: there is no such split.
        """
        if split not in self.splits:
            raise InputError(
                f"split is {split!r}; required: one of {', '.join(self.splits)}; choose one"
            )
        return self.splits[split]

    def score(self, episode: Episode, question: Question) -> Score:
        """1 for the right number and nothing else."""
        (expected,) = question.answers
        solved = float(episode.answer == expected)
        feedback = f"expected {expected}, got {episode.answer or 'no answer: ' + episode.end}"
        stratum = str(question.row[STRATUM])
        return Score(solved, "" if solved else feedback, {"accuracy": solved}, stratum)

    def sampler(
        self, model: object, tokenizer: PreTrainedTokenizerFast, temperature: float
    ) -> Sampler | None:
        """One that keeps what the policy has read, for the policy that comes along."""
        from evoprompt_tiny.sampler import sampler_of  # torch is slow to load

        return sampler_of(model, tokenizer, self.limits, temperature)
