"""Questions about a shop, and the SQL that answers them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from evoprompt_tiny.task import KIND, draw_splits

from evoprompt.types import Question
from evoprompt_sql.database import FIRST_NAMES, LAST_NAMES, PRODUCTS, YEARS

TABLE_SHARES: Mapping[int, float] = {1: 0.35, 2: 0.4, 3: 0.25}
"""Share of the questions that need that many tables."""

KINDS = {1: "one table", 2: "two tables", 3: "three tables"}

MEASURES = {"orders": "COUNT(*)", "pieces": "SUM(quantity)"}

Query = Callable[[str], str]

_YEAR_SHARE = 0.5
_SPLITS_SEED = 161803


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing that the orders in question have in common.

    Attributes:
        column: of the table ``orders``.
        table: in which ``name`` stands, or empty if the value itself is given.
        name: what the question says.
    """

    column: str
    table: str
    name: str

    @property
    def text(self) -> str:
        """How the question says it."""
        number = "" if self.table or self.column == "year" else "number "
        match self.column:
            case "product_id":
                return f"of {'product ' if number else ''}{number}{self.name}"
            case "customer_id":
                return f"from {'customer ' if number else ''}{number}{self.name}"
            case _:
                return f"in {self.name}"

    @property
    def lookup(self) -> str:
        """The query that finds its value; empty if none is needed."""
        return f"SELECT id FROM {self.table} WHERE name = '{self.name}'" if self.table else ""

    @property
    def flat(self) -> str:
        """The condition of somebody who thinks that all is in one table."""
        if not self.table:
            return f"{self.column} = {self.name}"
        return f"{self.table[:-1]} = '{self.name}'"


@dataclass(frozen=True, slots=True)
class ShopQuestion:
    """A question about the orders of a shop.

    Attributes:
        measure: a key of :data:`MEASURES`.
        conditions: of product, customer and year, in this order; at least one.
    """

    measure: str
    conditions: tuple[Condition, ...]

    @property
    def tables(self) -> int:
        """Number of tables that have to be read."""
        return 1 + sum(bool(condition.table) for condition in self.conditions)

    @property
    def text(self) -> str:
        """The question in words."""
        said = " ".join(condition.text for condition in self.conditions)
        return f"How many {self.measure} {said} are there?"

    @property
    def flat(self) -> str:
        """A query of the table ``orders`` alone."""
        return count(self.measure, [condition.flat for condition in self.conditions])

    @property
    def sql(self) -> str:
        """One query with the right answer."""
        return count(
            self.measure,
            [
                f"{one.column} = ({one.lookup})" if one.table else one.flat
                for one in self.conditions
            ],
        )


def count(measure: str, conditions: Sequence[str]) -> str:
    """The query of ``orders`` under the given conditions."""
    return f"SELECT {MEASURES[measure]} FROM orders WHERE {' AND '.join(conditions)}"


def draw(rng: random.Random, query: Query, tables: int) -> ShopQuestion:
    """A random question that needs so many tables and to which some order of the shop belongs.

    Args:
        rng: where all randomness comes from.
        query: asks the shop.
        tables: 1 to 3.
    """
    while True:
        named = set(rng.sample(["product_id", "customer_id"], tables - 1))
        conditions = []
        for column in ("product_id", "customer_id"):
            if column in named or rng.random() < 0.5:
                conditions.append(_condition(column, rng, by_name=column in named))
        if not conditions or rng.random() < _YEAR_SHARE:
            conditions.append(Condition("year", "", str(rng.choice(YEARS))))
        question = ShopQuestion(rng.choice(list(MEASURES)), tuple(conditions))
        if query(question.sql) not in ("0", "None"):
            return question


def make_splits(
    shop: int, query: Query, sizes: Mapping[str, int]
) -> dict[str, tuple[Question, ...]]:
    """Splits of the given sizes, in which no question occurs twice.

    Args:
        shop: seed of the database.
        query: asks it.
        sizes: number of questions by name; earlier splits do not depend on later ones.
    """
    rng = random.Random(_SPLITS_SEED + shop)
    splits = draw_splits(
        rng,
        sizes,
        TABLE_SHARES,
        lambda tables: draw(rng, query, tables),
        lambda question: question.text,
    )
    return {
        name: tuple(
            _record(one, query, f"s{shop}-{name}-{number}") for number, one in enumerate(found)
        )
        for name, found in splits.items()
    }


def _record(question: ShopQuestion, query: Query, name: str) -> Question:
    answer = query(question.sql)
    return Question(
        id=name,
        text=question.text,
        answers=(answer,),
        row={"sql": question.sql, KIND: KINDS[question.tables]},
    )


def _condition(column: str, rng: random.Random, *, by_name: bool) -> Condition:
    if not by_name:
        return Condition(column, "", str(rng.randint(10, 99)))
    if column == "product_id":
        return Condition(column, "products", rng.choice(PRODUCTS))
    return Condition(column, "customers", f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}")
