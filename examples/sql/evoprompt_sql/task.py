"""The task as evoprompt sees it: questions, the tool, scoring and the policy that comes along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from evoprompt_tiny.hosts import host_defaults
from pydantic import BaseModel, ConfigDict, Field, field_validator

from evoprompt.agents import Episode, Limits, Sampler
from evoprompt.errors import InputError
from evoprompt.hookspecs import hookimpl
from evoprompt.plugins.component import BuildContext, Component
from evoprompt.tasks import Headline, Score, Task
from evoprompt.types import Question, Trajectory
from evoprompt_sql.bank import BANK, SEED_IDEAS, compose, diagnose
from evoprompt_sql.demonstrations import MOST_CALLS
from evoprompt_sql.questions import STRATA, make_splits
from evoprompt_sql.shop import Shop

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

WEIGHTS = Path(__file__).parent / "weights"
"""The pretrained policy that comes with the package; see ``pretrain.py``."""

PRETRAINING_SHOPS = range(1000, 1016)
"""Shops of the supervised stage; nothing else may use them."""


class SqlSettings(BaseModel):
    """What can be chosen about the task.

    Attributes:
        shop: seed of the database.
        train: training questions.
        validation: validation questions, for curves and for choosing settings.
        test: test questions, for results alone.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    shop: int = Field(default=7, ge=0)
    train: int = Field(default=600, ge=1)
    validation: int = Field(default=200, ge=1)
    test: int = Field(default=300, ge=1)

    @field_validator("shop")
    @classmethod
    def _not_of_pretraining(cls, shop: int) -> int:
        if shop in PRETRAINING_SHOPS:
            raise ValueError(
                f"the policy was pretrained in the shops {PRETRAINING_SHOPS.start} to "
                f"{PRETRAINING_SHOPS.stop - 1}; required: another seed"
            )
        return shop


class Sql(Task):
    """Questions about a shop's orders; the answer has to be the number alone.

    Args:
        settings: what was chosen.
    """

    headline = Headline("accuracy", "share solved")
    seed_instructions = (compose(SEED_IDEAS),)
    limits = Limits(calls=MOST_CALLS, turn_tokens=48, observation_tokens=24)
    bank = BANK
    host_defaults = host_defaults(WEIGHTS, limits)

    def __init__(self, settings: SqlSettings | None = None) -> None:
        self.settings = settings or SqlSettings()
        self.shop = Shop(self.settings.shop)

    @property
    def tools(self) -> Sequence[Callable[..., object]]:  # type: ignore[override]
        """Queries of the shop's database."""
        return (self.shop.query,)

    @cached_property
    def splits(self) -> dict[str, tuple[Question, ...]]:
        """The questions by split, none of which occurs twice."""
        chosen = self.settings
        sizes = {"test": chosen.test, "validation": chosen.validation, "train": chosen.train}
        return make_splits(chosen.shop, self.shop.query, sizes)

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
        """1 for what the question's own query finds and nothing else; strata are tables needed."""
        (expected,) = question.answers
        solved = float(episode.answer == expected)
        feedback = f"expected {expected}, got {episode.answer or 'no answer: ' + episode.end}"
        stratum = STRATA[int(str(question.row["tables"]))]
        return Score(solved, "" if solved else feedback, {"accuracy": solved}, stratum)

    def sampler(
        self, model: object, tokenizer: PreTrainedTokenizerFast, temperature: float
    ) -> Sampler | None:
        """One that keeps what the policy has read, for the policy that comes along."""
        from evoprompt_tiny.sampler import sampler_of  # torch is slow to load

        return sampler_of(model, tokenizer, self.limits, temperature)

    def diagnose(self, trajectory: Trajectory) -> Sequence[str]:
        """What went wrong in a failed trajectory; see ``bank.py``."""
        return diagnose(trajectory)


def _build(settings: SqlSettings, context: BuildContext) -> Sql:
    return Sql(settings)


@hookimpl
def evoprompt_components() -> Sequence[Component[SqlSettings]]:
    """The task."""
    return [
        Component(
            "task", "sql", _build, SqlSettings, "Questions over a SQLite database, by queries"
        )
    ]
