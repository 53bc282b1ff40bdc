"""House rules: the books of a shop follow rules that a seed draws and that no prompt states.

A question shows the tables and requires a number; the answer is one SQL query. Without the rules, a
query runs but finds the wrong number. Some questions are about a table without rules.
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
from evoprompt.support.errors import InputError
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

_MAX_FAILED_DRAWS = 20_000
"""Draws in a row without a new question, after which there is none."""

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
    """Rules of the books of a shop.

    Attributes:
        never: status of orders that never count; empty if all do.
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
        """Return two or three rules of five."""
        rng = random.Random(f"house rules {seed}")
        rule_names = set(rng.sample(_RULE_NAMES, rng.choice((2, 3))))
        never = rng.choice(OTHER_STATUSES)
        cases: tuple[Case, ...] = ("upper", "lower")
        case = rng.choice(cases)
        return cls(
            never=never if "status" in rule_names else "",
            cents="cents" in rule_names,
            case=case if "case" in rule_names else "as asked",
            days="day first" if "days" in rule_names else "iso",
            repeated="parcels" in rule_names,
        )

    def product(self, name: str) -> str:
        """Return a product's name in the books."""
        return {"upper": name.upper(), "lower": name.lower()}.get(self.case, name)

    def day(self, year: int, month: int, day: int) -> str:
        """Return a date in the form of the books."""
        if self.days == "iso":
            return f"{year}-{month:02}-{day:02}"
        return f"{day:02}.{month:02}.{year}"

    def conditions(self, values: Mapping[str, str]) -> str:
        """Return the SQL for conditions on orders, by columns, ``"year"`` and ``"carrier"``."""
        clauses = []
        for column, value in values.items():
            match column:
                case "year":
                    pattern = f"{value}%" if self.days == "iso" else f"%{value}"
                    clauses.append(f"day LIKE '{pattern}'")
                case "product":
                    clauses.append(f"product = '{self.product(value)}'")
                case "carrier":
                    sent = f"SELECT order_id FROM parcels WHERE carrier = '{value}'"
                    clauses.append(f"id IN ({sent})")
                case _:
                    clauses.append(f"{column} = '{value}'")
        return " AND ".join(clauses)

    def write(self, path: Path, seed: int) -> None:
        """Write the books of ``seed`` to a new SQLite file."""
        rng = random.Random(f"books {seed}")
        other_statuses = [status for status in OTHER_STATUSES if status != self.never]
        statuses = [*GOOD_STATUSES, *rng.sample(other_statuses, 2)]
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
class DrawnQuestion:
    """Question with its queries.

    Attributes:
        text: its words.
        sql: query for the right answer.
        naive: query without knowledge of the rules; ``sql`` if no rule matters.
        rows: of the table orders, for the feedback of a failure.
    """

    text: str
    sql: str
    naive: str
    rows: str = ""


class HouseSettings(SplitSizes):
    """Settings of the task.

    Attributes:
        shop: seed of the rules and of the books.
    """

    train: int = Field(default=200, ge=1)
    validation: int = Field(default=200, ge=1)
    shop: int = Field(default=1, ge=0)


class HouseRules(SplitTask):
    """Questions over the books of a shop with rules of its own; the answer is one SQL query.

    Args:
        settings: of the task.
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
        result = self._run_query(episode.answer or "")
        (expected,) = question.answers
        solved = float(same_number(result, expected))
        feedback = f"the query found: {result}. Right is: {expected}.{question.row['rows']}"
        kind = str(question.row[KIND])
        return Score(solved, "" if solved else feedback, {"accuracy": solved}, kind)

    def _run_query(self, answer: str) -> str:
        block = re.search(r"```(?:\w+\n)?(.*?)(?:```|$)", answer, re.DOTALL)
        sql = (block[1] if block else answer).strip().partition(";")[0]
        try:
            return self.books.query(sql)
        except (sqlite3.Error, ValueError, TimeoutError) as error:
            return f"nothing ({error})"

    @cached_property
    def splits(self) -> dict[str, tuple[Question, ...]]:
        """Return the questions by split; no question occurs twice."""
        rng = random.Random(f"questions {self.settings.shop}")
        seen: set[str] = set()
        splits = {}
        for name, size in self.settings.sizes.items():
            easy = round(EASY_SHARE * size)
            questions = [*islice(self._fresh(rng, seen, easy=True), easy)]
            questions += islice(self._fresh(rng, seen, easy=False), size - easy)
            rng.shuffle(questions)
            splits[name] = tuple(
                Question(
                    id=f"h{self.settings.shop}-{name}-{number}",
                    text=f"{SCHEMA}\nQuestion: {question.text}",
                    answers=(self.books.query(question.sql),),
                    row={
                        "sql": question.sql,
                        "naive": question.naive,
                        "rows": question.rows,
                        KIND: EASY if question.sql == question.naive else RULED,
                    },
                )
                for number, question in enumerate(questions)
            )
        return splits

    def _fresh(self, rng: random.Random, seen: set[str], *, easy: bool) -> Iterator[DrawnQuestion]:
        """Yield random questions that were not drawn before, and have an answer.

        Without the rules, all but the easy ones get a wrong answer.

        Raises:
            InputError: the shop has no more of them.
        """
        draw = self._easy if easy else self._ruled
        num_failed = 0
        while True:
            if num_failed == _MAX_FAILED_DRAWS:
                sizes = ", ".join(f"{name} {size}" for name, size in self.settings.sizes.items())
                kind = f"that no rule concerns, a share of {EASY_SHARE:g}," if easy else "of a rule"
                raise InputError(
                    f"the splits are {sizes}, and shop {self.settings.shop} has only {len(seen)} "
                    f"different questions until those {kind} are used up; required: fewer; lower "
                    "task.train, task.validation or task.test"
                )
            num_failed += 1
            question = draw(rng)
            answer, guess = self.books.query(question.sql), self.books.query(question.naive)
            if (
                question.text not in seen
                and answer not in ("0", "None")
                and easy == (answer == guess)
            ):
                seen.add(question.text)
                num_failed = 0
                yield question

    def _easy(self, rng: random.Random) -> DrawnQuestion:
        """Return a question about the staff."""
        values = {"team": rng.choice(TEAMS), "city": rng.choice(CITIES)}
        columns = rng.choice((["team"], ["city"], ["team", "city"]))
        measure, words = rng.choice([*STAFF_MEASURES.items()])
        condition = " AND ".join(f"{column} = '{values[column]}'" for column in columns)
        words_of_condition = " ".join(
            STAFF_WORDS[column].format(values[column]) for column in columns
        )
        sql = f"SELECT {measure} FROM staff WHERE {condition}"
        return DrawnQuestion(words.format(words_of_condition), sql, sql)

    def _ruled(self, rng: random.Random) -> DrawnQuestion:
        """Return a question about orders, or their parcels if a rule concerns them."""
        rules = self.rules
        if rules.repeated and rng.random() < _PARCELS_SHARE:
            measure, values = "COUNT(*)", {"carrier": rng.choice(CARRIERS)}
            naive = f"SELECT COUNT(*) FROM parcels WHERE carrier = '{values['carrier']}'"
            if rng.random() < _TWO_CONDITIONS:
                values["city"] = rng.choice(CITIES)
                join = "parcels JOIN orders ON order_id = id"
                condition = f"city = '{values['city']}' AND carrier = '{values['carrier']}'"
                naive = f"SELECT COUNT(*) FROM {join} WHERE {condition}"
        else:
            measure = rng.choice([*MEASURES])
            every = {
                "product": rng.choice(PRODUCTS),
                "customer": rng.choice(PEOPLE),
                "city": rng.choice(CITIES),
                "year": str(rng.choice(YEARS)),
            }
            columns = rng.sample([*every], 2 if rng.random() < _TWO_CONDITIONS else 1)
            values = {column: value for column, value in every.items() if column in columns}
            naive = f"SELECT {measure} FROM orders WHERE {Rules().conditions(values)}"
        words_of_condition = " ".join(
            WORDS[column].format(value) for column, value in values.items()
        )
        condition = rules.conditions(values)
        counts = f"{condition} AND status != '{rules.never}'" if rules.never else condition
        expression = measure.replace("price", "price / 100.0") if rules.cents else measure
        return DrawnQuestion(
            MEASURES[measure].format(words_of_condition),
            f"SELECT {expression} FROM orders WHERE {counts}",
            naive,
            self._rows(condition, counts),
        )

    def _rows(self, condition: str, counts: str) -> str:
        """Return a row that counts and rows that must not: another one, or the same one again."""
        counted = self._row(f"SELECT * FROM orders WHERE {counts}")
        sentences = [f" A row of orders (columns as in the table) that counts: {counted}."]
        never = f"SELECT * FROM orders WHERE {condition} AND status = '{self.rules.never}'"
        if (row := self._row(never)) != NO_ROWS:
            sentences.append(f"A row that must not count: {row}.")
        repeated = f"""
            SELECT order_id, COUNT(*) FROM parcels
            WHERE order_id IN (SELECT id FROM orders WHERE {counts})
            GROUP BY order_id HAVING COUNT(*) > 1"""
        if "carrier" in condition and (row := self._row(repeated)) != NO_ROWS:
            number, times = row.split(" | ")
            sentences.append(f"Order {number} has {times} rows in parcels and is one order.")
        return " ".join(sentences)

    def _row(self, sql: str) -> str:
        return self.books.query(f"{sql} LIMIT 1")


def same_number(result: str, expected: str) -> bool:
    """Return whether a result is one value, and that number."""
    try:
        return math.isclose(float(result), float(expected), rel_tol=1e-9)
    except ValueError:
        return False


@hookimpl
def evoprompt_components() -> Sequence[type[Component]]:
    """Return the task."""
    return [HouseRules]
