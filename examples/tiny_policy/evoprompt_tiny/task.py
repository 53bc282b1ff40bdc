"""Common parts of tasks for tiny policies: splits, scoring, and the sampler."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from evoprompt.agents import Episode, Move, Protocol, Sampler, TextTokenizer, ToolCallProtocol
from evoprompt.agents.tasks import MainMetric, Score, Task
from evoprompt.components import BuildContext
from evoprompt.support.errors import InputError
from evoprompt.types import Question

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from evoprompt.agents import ChatTokenizer

DrawnT = TypeVar("DrawnT")

KIND = "kind"
"""Key of a question's row with its kind."""


class SplitSizes(BaseModel):
    """Numbers of questions of a task.

    Attributes:
        train: training questions.
        validation: validation questions, for curves and for choosing settings.
        test: test questions, only for results.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: int = Field(default=600, ge=1)
    validation: int = Field(default=200, ge=1)
    test: int = Field(default=300, ge=1)

    @property
    def sizes(self) -> dict[str, int]:
        """Return the number of questions by split, in the order in which they are drawn."""
        return {"test": self.test, "validation": self.validation, "train": self.train}


def draw_splits(
    rng: random.Random,
    sizes: Mapping[str, int],
    shares: Mapping[int, float],
    draw: Callable[[int], DrawnT],
    key: Callable[[DrawnT], Hashable],
) -> dict[str, list[DrawnT]]:
    """Return splits of the given sizes; no two questions are equal.

    Args:
        rng: of the order within a split.
        sizes: number of questions by name; earlier splits do not depend on later ones.
        shares: share of the questions that take so many steps; those of one step fill up.
        draw: returns a random question of so many steps.
        key: returns a value that equal questions share.
    """
    seen: set[Hashable] = set()
    splits: dict[str, list[DrawnT]] = {}
    for name, size in sizes.items():
        counts = {steps: round(share * size) for steps, share in shares.items()}
        counts[1] += size - sum(counts.values())
        drawn_questions: list[DrawnT] = []
        for steps, count in counts.items():
            while count:
                question = draw(steps)
                if key(question) not in seen:
                    seen.add(key(question))
                    drawn_questions.append(question)
                    count -= 1
        rng.shuffle(drawn_questions)
        splits[name] = drawn_questions
    return splits


class OneTry(ToolCallProtocol):
    """Protocol of tool calls in which an unreadable call ends the episode.

    The shipped policies were trained on such episodes, and know no words for errors.
    """

    def act(self, text: str) -> Move:
        """Return the move in an action."""
        move = super().act(text)
        return replace(move, calls=()) if any(call.fault for call in move.calls) else move


class SplitTask(Task):
    """Task with splits that its settings draw.

    Args:
        settings: of the task, by its ``Settings``.
    """

    @classmethod
    def build(cls, settings: Any, context: BuildContext) -> Self:
        """Return the task that ``settings`` describe."""
        return cls(settings)

    def __init__(self, settings: Any = None) -> None:
        self.settings = self.Settings() if settings is None else settings

    @property
    @abstractmethod
    def splits(self) -> Mapping[str, tuple[Question, ...]]:
        """Return the questions by split, each with a ``"kind"`` in its row."""

    def questions(self, split: str) -> tuple[Question, ...]:
        """Return the questions of ``split``.

        Raises:
            InputError: there is no such split.
        """
        if split not in self.splits:
            raise InputError(
                f"split is {split!r}; required: one of {', '.join(self.splits)}; choose one"
            )
        return self.splits[split]


class TinyTask(SplitTask):
    """Task with a shipped policy."""

    def sampler(
        self, model: object, tokenizer: PreTrainedTokenizerFast, temperature: float
    ) -> Sampler | None:
        """Return a caching sampler for the shipped policy; None for any other model."""
        from evoprompt_tiny.sampler import sampler_of  # torch is slow to load

        return sampler_of(model, tokenizer, self.limits, temperature)


class NumberTask(TinyTask):
    """Task whose answers are numbers: each question has one answer."""

    main_metric = MainMetric("accuracy", "share solved")

    def protocol(self, tokenizer: ChatTokenizer) -> Protocol:
        """Return the model's own tool calls; the shipped policy has one try at each."""
        if isinstance(tokenizer, TextTokenizer):  # of a model behind a server
            return ToolCallProtocol(tokenizer)
        return OneTry(tokenizer)

    def score(self, episode: Episode, question: Question) -> Score:
        """1 for the right number and nothing else."""
        (expected,) = question.answers
        solved = float(episode.answer == expected)
        feedback = f"expected {expected}, got {episode.answer or 'no answer: ' + episode.end}"
        kind = str(question.row[KIND])
        return Score(solved, "" if solved else feedback, {"accuracy": solved}, kind)
