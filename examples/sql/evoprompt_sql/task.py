"""The task as evoprompt sees it: questions, the tool, scoring and the policy that comes along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from evoprompt_tiny.hosts import host_defaults
from evoprompt_tiny.instructions import compose
from evoprompt_tiny.task import NumberTask, SplitSizes
from pydantic import Field, field_validator

from evoprompt.agents import Limits
from evoprompt.hookspecs import hookimpl
from evoprompt.roles import Component
from evoprompt.types import INSTRUCTION, Question, Trajectory, Written
from evoprompt_sql.bank import (
    BANK,
    DESCRIPTION_BANK,
    GOOD_IDEAS,
    SEED_IDEAS,
    WRONG_DESCRIPTION,
    diagnose,
)
from evoprompt_sql.demonstrations import MOST_CALLS
from evoprompt_sql.house import HouseRules
from evoprompt_sql.questions import make_splits
from evoprompt_sql.shop import Shop

WEIGHTS = Path(__file__).parent / "weights"
"""The pretrained policy that comes with the package; see ``pretrain.py``."""

PRETRAINING_SHOPS = range(1000, 1016)
"""Shops of the supervised stage; nothing else may use them."""


class SqlSettings(SplitSizes):
    """What can be chosen about the task, besides the number of its questions.

    Attributes:
        shop: seed of the database.
        wrong_description: starts from a good instruction and a wrong description of the tool; the
            description evolves, and the instruction does not.
    """

    shop: int = Field(default=7, ge=0)
    wrong_description: bool = False

    @field_validator("shop")
    @classmethod
    def _not_of_pretraining(cls, shop: int) -> int:
        if shop in PRETRAINING_SHOPS:
            raise ValueError(
                f"the policy was pretrained in the shops {PRETRAINING_SHOPS.start} to "
                f"{PRETRAINING_SHOPS.stop - 1}; required: another seed"
            )
        return shop


class Sql(NumberTask):
    """Questions over a SQLite database, by queries; the answer has to be the number alone.

    Args:
        settings: what was chosen.
    """

    Settings = SqlSettings
    seed_instructions = (compose(BANK, SEED_IDEAS),)
    limits = Limits(calls=MOST_CALLS, turn_tokens=48, observation_tokens=24)
    bank = BANK
    host_defaults = host_defaults(WEIGHTS, limits)

    settings: SqlSettings

    def __init__(self, settings: SqlSettings | None = None) -> None:
        super().__init__(settings)
        self.shop = Shop(self.settings.shop)
        if self.settings.wrong_description:
            self.seed_instructions = (compose(BANK, GOOD_IDEAS),)
            self.evolving_tools = ("query",)
            self.bank = DESCRIPTION_BANK

    @property
    def tools(self) -> Sequence[Callable[..., object]]:  # type: ignore[override]
        """Queries of the shop's database."""
        return (self.shop.query,)

    @property
    def seeds(self) -> Sequence[Written]:
        """The seed instruction, with the wrong description of the tool if that was chosen."""
        if not self.settings.wrong_description:
            return super().seeds
        (instruction,) = self.seed_instructions
        return [{INSTRUCTION: instruction, DESCRIPTION_BANK.component: WRONG_DESCRIPTION}]

    @cached_property
    def splits(self) -> dict[str, tuple[Question, ...]]:
        """The questions by split, none of which occurs twice."""
        return make_splits(self.settings.shop, self.shop.query, self.settings.sizes)

    def diagnose(self, trajectory: Trajectory) -> Sequence[str]:
        """What went wrong in a failed trajectory; see ``bank.py``."""
        return diagnose(trajectory)


@hookimpl
def evoprompt_components() -> Sequence[type[Component]]:
    """The tasks."""
    return [Sql, HouseRules]
