"""What tasks for tiny policies have in common: splits, scoring, and who samples."""

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


def draw_splits(
    rng: random.Random,
    sizes: Mapping[str, int],
    shares: Mapping[int, float],
    draw: Callable[[int], DrawnT],
    key: Callable[[DrawnT], Hashable],
) -> dict[str, list[DrawnT]]:
    """Splits of the given sizes, no two questions of which are alike.

    Args:
        rng: of the order within a split.
        sizes: number of questions by name; earlier splits do not depend on later ones.
        shares: share of the questions that take so many steps; those of one step fill up.
        draw: a random question of so many steps.
        key: what two questions that are alike share.
    """
    seen: set[Hashable] = set()
    splits: dict[str, list[DrawnT]] = {}
    for name, size in sizes.items():
        counts = {steps: round(share * size) for steps, share in shares.items()}
        counts[1] += size - sum(counts.values())
        found: list[DrawnT] = []
        for steps, count in counts.items():
            while count:
                one = draw(steps)
                if key(one) not in seen:
                    seen.add(key(one))
                    found.append(one)
                    count -= 1
        rng.shuffle(found)
        splits[name] = found
    return splits


class OneTry(ToolCallProtocol):
    """Tool calls of which one that cannot be read ends the episode.

    The policies that come along were trained on such episodes, and know no word of what went wrong.
    """

    def act(self, said: str) -> Move:
        """What an action does."""
        move = super().act(said)
        return replace(move, calls=()) if any(call.fault for call in move.calls) else move


class SplitTask(Task):
    """A task whose splits are drawn by its settings.

    Args:
        settings: what was chosen of its ``Settings``.
    """

    @classmethod
    def build(cls, settings: Any, context: BuildContext) -> Self:
        """Makes the task as ``settings`` describe it."""
        return cls(settings)

    def __init__(self, settings: Any = None) -> None:
        self.settings = self.Settings() if settings is None else settings

    @property
    @abstractmethod
    def splits(self) -> Mapping[str, tuple[Question, ...]]:
        """The questions by split, each with a ``"kind"`` in its row."""

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


class TinyTask(SplitTask):
    """A task for a policy that comes along."""

    def sampler(
        self, model: object, tokenizer: PreTrainedTokenizerFast, temperature: float
    ) -> Sampler | None:
        """One that keeps what the policy has read, for the policy that comes along."""
        from evoprompt_tiny.sampler import sampler_of  # torch is slow to load

        return sampler_of(model, tokenizer, self.limits, temperature)


class NumberTask(TinyTask):
    """A task whose answers are numbers: each question has one answer."""

    main_metric = MainMetric("accuracy", "share solved")

    def protocol(self, tokenizer: ChatTokenizer) -> Protocol:
        """The model's own tool calls; the policy that comes along has one try at each."""
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
