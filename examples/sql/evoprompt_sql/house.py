"""House rules: a shop whose books are kept by rules that a seed draws and nobody is told.

A question shows the tables and asks for a number; the answer is one SQL query. Whoever does not
know the rules writes queries that run and find the wrong number. Some questions are about a table
that no rule concerns.
"""

from __future__ import annotations

import math
import random
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Literal

from evoprompt_tiny.task import KIND, SplitSizes, SplitTask
from pydantic import Field

from evoprompt.agents import Episode, Limits
from evoprompt.agents.tasks import MainMetric, Score
from evoprompt.components import Component
from evoprompt.hookspecs import hookimpl
from evoprompt.types import Question
from evoprompt_sql.shop import Shop

PEOPLE = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "Jana")
CITIES = ("Paris", "Rome", "Oslo", "Berlin", "Madrid", "Lisbon", "Vienna", "Dublin")
PRODUCTS = ("Lamp", "Chair", "Desk", "Shelf", "Mirror", "Rug", "Clock", "Vase")
TEAMS = ("Sales", "Support", "Kitchen", "Garden", "Legal", "Design")
CARRIERS = ("Swift", "Harbor", "Condor")
YEARS = range(2021, 2026)
GOOD_STATUSES = ("paid", "shipped", "open")
OTHER_STATUSES = ("cancelled", "returned", "draft", "test", "failed", "refunded")

SCHEMA = """\
Table orders(id INTEGER, customer TEXT, city TEXT, product TEXT, quantity INTEGER, price INTEGER, \
day TEXT, status TEXT)
Table parcels(order_id INTEGER, carrier TEXT)
Table staff(name TEXT, city TEXT, team TEXT, salary INTEGER)"""
"""The tables, as a question shows them."""

ORDER_COUNT, STAFF_COUNT = 400, 120

EASY_SHARE = 0.25
"""Share of the questions that no rule concerns."""

EASY, RULED = "no rule", "house rules"

MEASURES: Mapping[str, str] = {
    "COUNT(*)": "How many orders {} are there?",
    "SUM(quantity)": "What is the sum of the quantities of the orders {}?",
    "SUM(quantity * price)": "What is the revenue (quantity times price, in euros) from orders {}?",
    "MAX(price)": "What is the highest price in euros among the orders {}?",
    "COUNT(DISTINCT customer)": "How many different customers made orders {}?",
}
WORDS: Mapping[str, str] = {
    "product": "of the product {}",
    "customer": "of the customer {}",
    "city": "from the city {}",
    "year": "in the year {}",
    "carrier": "that have a parcel with the carrier {}",
}
STAFF_MEASURES: Mapping[str, str] = {
    "COUNT(*)": "How many people of the staff work {}?",
    "MAX(salary)": "What is the highest salary of the staff {}?",
    "MIN(salary)": "What is the lowest salary of the staff {}?",
}
STAFF_WORDS: Mapping[str, str] = {"team": "in the team {}", "city": "in {}"}

NO_ROWS = "no rows"

Case = Literal["as asked", "upper", "lower"]

_CENTS = 100
_NEVER_SHARE = 0.25
_PARCELS_SHARE = 0.3
_TWO_CONDITIONS = 0.25
_RULE_NAMES = ("status", "cents", "case", "days", "parcels")


@dataclass(frozen=True, slots=True)
class Rules:
    """How the books of a shop are kept.

    Attributes:
        never: status of orders that never count; empty where all do.
        cents: whether prices are in cents rather than euros.
        case: of the names of products.
        days: ``"iso"`` for 2025-12-31, ``"day first"`` for 31.12.2025.
        repeated: whether an order may have several parcels with one carrier, so that a join finds
            it more than once.
    """

    never: str = ""
    cents: bool = False
    case: Case = "as asked"
    days: Literal["iso", "day first"] = "iso"
    repeated: bool = False

    @classmethod
    def draw(cls, seed: int) -> Rules:
        """Two or three rules of five."""
        rng = random.Random(f"house rules {seed}")
        held = set(rng.sample(_RULE_NAMES, rng.choice((2, 3))))
        never = rng.choice(OTHER_STATUSES)
        cases: tuple[Case, ...] = ("upper", "lower")
        case = rng.choice(cases)
        return cls(
            never=never if "status" in held else "",
            cents="cents" in held,
            case=case if "case" in held else "as asked",
            days="day first" if "days" in held else "iso",
            repeated="parcels" in held,
        )

    def product(self, name: str) -> str:
        """How the books write a product."""
        return {"upper": name.upper(), "lower": name.lower()}.get(self.case, name)

    def day(self, year: int, month: int, day: int) -> str:
        """How the books write a date."""
        if self.days == "iso":
            return f"{year}-{month:02}-{day:02}"
        return f"{day:02}.{month:02}.{year}"

    def conditions(self, given: Mapping[str, str]) -> str:
        """The SQL for what a question says of orders, by columns, ``"year"`` and ``"carrier"``."""
        found = []
        for column, value in given.items():
            match column:
                case "year":
                    pattern = f"{value}%" if self.days == "iso" else f"%{value}"
                    found.append(f"day LIKE '{pattern}'")
                case "product":
                    found.append(f"product = '{self.product(value)}'")
                case "carrier":
                    sent = f"SELECT order_id FROM parcels WHERE carrier = '{value}'"
                    found.append(f"id IN ({sent})")
                case _:
                    found.append(f"{column} = '{value}'")
        return " AND ".join(found)

    def write(self, path: Path, seed: int) -> None:
        """Writes the books of ``seed`` to a new SQLite file."""
        rng = random.Random(f"books {seed}")
        others = [one for one in OTHER_STATUSES if one != self.never]
        statuses = [*GOOD_STATUSES, *rng.sample(others, 2)]
        orders, parcels = [], []
        for number in range(1, ORDER_COUNT + 1):
            never = self.never and rng.random() < _NEVER_SHARE
            order = (
                number,
                rng.choice(PEOPLE),
                rng.choice(CITIES),
                self.product(rng.choice(PRODUCTS)),
                rng.randint(1, 9),
                rng.randint(5, 90) * (_CENTS if self.cents else 1),
                self.day(rng.choice(YEARS), rng.randint(1, 12), rng.randint(1, 28)),
                self.never if never else rng.choice(statuses),
            )
            orders.append(order)
            times = rng.choice((1, 1, 2, 3)) if self.repeated else 1
            parcels += [(number, rng.choice(CARRIERS))] * times
        staff = [
            (
                f"{rng.choice(PEOPLE)} {n}",
                rng.choice(CITIES),
                rng.choice(TEAMS),
                rng.randint(20, 90),
            )
            for n in range(1, STAFF_COUNT + 1)
        ]
        with closing(sqlite3.connect(path)) as connection, connection:
            for table in SCHEMA.splitlines():
                connection.execute(table.replace("Table", "CREATE TABLE", 1))
            connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?)", orders)
            connection.executemany("INSERT INTO parcels VALUES (?, ?)", parcels)
            connection.executemany("INSERT INTO staff VALUES (?, ?, ?, ?)", staff)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A question.

    Attributes:
        text: its words.
        sql: finds the right answer.
        naive: finds what somebody thinks who does not know the rules; ``sql`` where none matters.
        rows: what a failure shows of the table orders.
    """

    text: str
    sql: str
    naive: str
    rows: str = ""


class HouseSettings(SplitSizes):
    """What can be chosen about the task.

    Attributes:
        shop: seed of the rules and of the books.
    """

    train: int = Field(default=200, ge=1)
    validation: int = Field(default=200, ge=1)
    shop: int = Field(default=1, ge=0)


class HouseRules(SplitTask):
    """Questions over the books of a shop with rules of its own; the answer is one SQL query.

    Args:
        settings: what was chosen.
    """

    Settings = HouseSettings
    main_metric = MainMetric("accuracy", "share solved")
    seed_instructions = ("Answer the question with an SQL query.",)
    limits = Limits(calls=0, turn_tokens=64, observation_tokens=0)

    settings: HouseSettings

    def __init__(self, settings: HouseSettings | None = None) -> None:
        super().__init__(settings)
        self.rules = Rules.draw(self.settings.shop)
        self.books = Shop(self.settings.shop, self.rules.write)

    def score(self, episode: Episode, question: Question) -> Score:
        """1 for an SQL query (a code block may stand around it) that finds the right number alone.

        Else 0, and what the policy could not see: what its query found, the right number, a row
        of the table orders that counts and one that must not.
        """
        found = self._found(episode.answer or "")
        (expected,) = question.answers
        solved = float(same_number(found, expected))
        shown = f"the query found: {found}. Right is: {expected}.{question.row['rows']}"
        kind = str(question.row[KIND])
        return Score(solved, "" if solved else shown, {"accuracy": solved}, kind)

    def _found(self, answer: str) -> str:
        block = re.search(r"```(?:\w+\n)?(.*?)(?:```|$)", answer, re.DOTALL)
        sql = (block[1] if block else answer).strip().partition(";")[0]
        try:
            return self.books.query(sql)
        except (sqlite3.Error, ValueError, TimeoutError) as error:
            return f"nothing ({error})"

    @cached_property
    def splits(self) -> dict[str, tuple[Question, ...]]:
        """The questions by split, none of which occurs twice."""
        rng = random.Random(f"questions {self.settings.shop}")
        seen: set[str] = set()
        splits = {}
        for name, size in self.settings.sizes.items():
            easy = round(EASY_SHARE * size)
            found = [*islice(self._fresh(rng, seen, easy=True), easy)]
            found += islice(self._fresh(rng, seen, easy=False), size - easy)
            rng.shuffle(found)
            splits[name] = tuple(
                Question(
                    id=f"h{self.settings.shop}-{name}-{number}",
                    text=f"{SCHEMA}\nQuestion: {one.text}",
                    answers=(self.books.query(one.sql),),
                    row={
                        "sql": one.sql,
                        "naive": one.naive,
                        "rows": one.rows,
                        KIND: EASY if one.sql == one.naive else RULED,
                    },
                )
                for number, one in enumerate(found)
            )
        return splits

    def _fresh(self, rng: random.Random, seen: set[str], *, easy: bool) -> Iterator[Drawn]:
        """Random questions that were not drawn before, and have an answer.

        All but the easy ones are answered otherwise by who does not know the rules.
        """
        draw = self._easy if easy else self._ruled
        while True:
            found = draw(rng)
            answer, guess = self.books.query(found.sql), self.books.query(found.naive)
            if found.text not in seen and answer not in ("0", "None") and easy == (answer == guess):
                seen.add(found.text)
                yield found

    def _easy(self, rng: random.Random) -> Drawn:
        """A question about the staff."""
        given = {"team": rng.choice(TEAMS), "city": rng.choice(CITIES)}
        columns = rng.choice((["team"], ["city"], ["team", "city"]))
        measure, words = rng.choice([*STAFF_MEASURES.items()])
        where = " AND ".join(f"{column} = '{given[column]}'" for column in columns)
        said = " ".join(STAFF_WORDS[column].format(given[column]) for column in columns)
        sql = f"SELECT {measure} FROM staff WHERE {where}"
        return Drawn(words.format(said), sql, sql)

    def _ruled(self, rng: random.Random) -> Drawn:
        """A question about orders, or their parcels where a rule concerns them."""
        rules = self.rules
        if rules.repeated and rng.random() < _PARCELS_SHARE:
            measure, given = "COUNT(*)", {"carrier": rng.choice(CARRIERS)}
            naive = f"SELECT COUNT(*) FROM parcels WHERE carrier = '{given['carrier']}'"
            if rng.random() < _TWO_CONDITIONS:
                given["city"] = rng.choice(CITIES)
                join = "parcels JOIN orders ON order_id = id"
                where = f"city = '{given['city']}' AND carrier = '{given['carrier']}'"
                naive = f"SELECT COUNT(*) FROM {join} WHERE {where}"
        else:
            measure = rng.choice([*MEASURES])
            every = {
                "product": rng.choice(PRODUCTS),
                "customer": rng.choice(PEOPLE),
                "city": rng.choice(CITIES),
                "year": str(rng.choice(YEARS)),
            }
            drawn = rng.sample([*every], 2 if rng.random() < _TWO_CONDITIONS else 1)
            given = {one: value for one, value in every.items() if one in drawn}
            naive = f"SELECT {measure} FROM orders WHERE {Rules().conditions(given)}"
        said = " ".join(WORDS[one].format(value) for one, value in given.items())
        where = rules.conditions(given)
        counts = f"{where} AND status != '{rules.never}'" if rules.never else where
        shown = measure.replace("price", "price / 100.0") if rules.cents else measure
        return Drawn(
            MEASURES[measure].format(said),
            f"SELECT {shown} FROM orders WHERE {counts}",
            naive,
            self._rows(where, counts),
        )

    def _rows(self, where: str, counts: str) -> str:
        """A row that counts, and what must not: another row, or the same one more than once."""
        one = self._row(f"SELECT * FROM orders WHERE {counts}")
        told = [f" A row of orders (columns as in the table) that counts: {one}."]
        never = f"SELECT * FROM orders WHERE {where} AND status = '{self.rules.never}'"
        if (row := self._row(never)) != NO_ROWS:
            told.append(f"A row that must not count: {row}.")
        repeated = f"""
            SELECT order_id, COUNT(*) FROM parcels
            WHERE order_id IN (SELECT id FROM orders WHERE {counts})
            GROUP BY order_id HAVING COUNT(*) > 1"""
        if "carrier" in where and (row := self._row(repeated)) != NO_ROWS:
            number, times = row.split(" | ")
            told.append(f"Order {number} has {times} rows in parcels and is one order.")
        return " ".join(told)

    def _row(self, sql: str) -> str:
        return self.books.query(f"{sql} LIMIT 1")


def same_number(found: str, expected: str) -> bool:
    """Whether a result is one value, and that number."""
    try:
        return math.isclose(float(found), float(expected), rel_tol=1e-9)
    except ValueError:
        return False


@hookimpl
def evoprompt_components() -> Sequence[type[Component]]:
    """The task."""
    return [HouseRules]
