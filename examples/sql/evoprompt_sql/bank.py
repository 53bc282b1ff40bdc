"""The sentences from which instructions are composed, and what a failed episode shows.

Nothing here tells good sentences from bad, and neither can a proposer but by trying or by reading
failures. What each does to a demonstrator is said in ``demonstrations.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from evoprompt_tiny.attempt import Attempt
from evoprompt_tiny.idle import IDLE
from evoprompt_tiny.template import call_phrases
from evoprompt_tiny.writing import WRITING, WRITING_REMEDIES

from evoprompt.bank import SentenceBank
from evoprompt.types import TOOL, Trajectory

OPENING, CLOSING = call_phrases("query", "sql")
"""What stands around the SQL of a call."""

ABOUT_QUERIES: Mapping[str, Sequence[str]] = {
    "one-table": ("Read one table at a time.", "Every query should read a single table."),
    "look-up": (
        "Look up the id of each name first.",
        "Find the numbers of names before you count.",
    ),
    "follow": ("Use each id in the next query.", "Put what you found into the next query."),
    "each-name": ("Make one query for each name.", "Every name needs a query of its own."),
    "split": ("Break the question into smaller steps.", "Split a long question into short ones."),
    "query-first": ("Query before you answer.", "Never answer without a query."),
    "optional": ("You can query the database.", "A database is available."),
    "once": ("Query the database exactly once.", "Make only one query."),
    "whole": ("Put the whole question into one query.", "Filter by all words of the question."),
    "memory": ("Answer from memory.", "Rely on what you already know."),
    "hurry": ("Be as quick as possible.", "Do not waste queries."),
    "exhaust": ("Query as often as you can.", "Use up all of your queries."),
    "stop": ("Answer as soon as you have the count.", "Stop once you know the answer."),
    "conditions": ("Keep every condition of the question.", "Mind the year if there is one."),
    "loose": ("The year does not matter.", "Ignore what seems less important."),
}

ABOUT_WRITING: Mapping[str, Sequence[str]] = {
    **WRITING,
    "check": (
        "Check each query against the question.",
        "Make sure that you count the right thing.",
    ),
    "copy": ("Copy ids exactly.", "Never change a number that you read."),
    "guess": ("Guess if you are not sure.", "A rough estimate will do."),
}

SENTENCES: Mapping[str, Sequence[str]] = {
    **ABOUT_QUERIES,
    **ABOUT_WRITING,
    "analyst": ("You are an analyst of data.", "You know a lot about databases."),
    "shop": ("The database belongs to a shop.", "The shop has customers in many cities."),
    "tables": ("There are three tables.", "The tables are customers, products and orders."),
    **IDLE,
}
"""Every idea's wordings."""

REMEDIES: Mapping[str, Sequence[str]] = {
    "no query": ("query-first", "optional", "each-name", "memory", "care", "analyst"),
    "unknown column": (
        *("one-table", "look-up", "follow", "each-name", "split", "whole"),
        *("read-question", "plan", "tables", "logic"),
    ),
    "condition missing": ("conditions", "loose", "read-question", "shop", "name-things"),
    "wrong result": ("check", "copy", "guess", "follow", "care", "tables", "focus"),
    **WRITING_REMEDIES,
}
"""What a hand that had only read the failure might try: good, bad and idle ideas by diagnosis."""

SEED_IDEAS = ("assistant", "answer-it", "optional")
"""Ideas of the instruction training starts from: the usual text that asks for nothing special."""

GOOD_IDEAS = (
    *("one-table", "look-up", "follow", "each-name", "query-first", "conditions"),
    *("number-only", "valid-call", "check"),
)
"""Ideas of an instruction written by someone who knows the demonstrations, as a control."""

BANK = SentenceBank(sentences=SENTENCES, remedies=REMEDIES)

ABOUT_TOOL: Mapping[str, Sequence[str]] = {
    "select": ("Runs one SELECT.", "Takes a SELECT and gives its rows."),
    "names-in-orders": (
        "Rows of orders, which has the names of customers and products.",
        "Each order has all names, so nothing else need be read.",
    ),
    "ids-in-orders": (
        "In orders are ids and no names.",
        "Names are to be looked up, orders knows ids alone.",
    ),
    "single-query": ("One query finds everything.", "A single query is enough."),
    "read-only": ("Nothing can be changed.", "The database is read-only."),
    "most-rows": ("At most 20 rows are shown.", "Long results are cut."),
    "errors": ("Errors are shown.", "What is wrong with a query is said."),
    "dialect": ("The dialect is that of SQLite.", "Write it for SQLite."),
    "fast": ("A query may take one second.", "Slow queries are stopped."),
    "first-year": ("Orders begin in 2018.", "There are orders of six years."),
    "cities": ("Customers have a city.", "The city of a customer is known."),
    "prices": ("Products have a category and a price.", "Each product has a price."),
}
"""What a description of the tool may say, true or not."""

WRONG_DESCRIPTION = ABOUT_TOOL["names-in-orders"][0]
"""What would be true if the shop had a single table."""

DESCRIPTION_BANK = SentenceBank(
    sentences=ABOUT_TOOL,
    remedies={
        "unknown column": (
            *("ids-in-orders", "names-in-orders", "single-query", "errors", "dialect"),
            *("cities", "prices", "select"),
        ),
        "condition missing": ("first-year", "prices", "single-query"),
        "wrong result": ("select", "most-rows", "names-in-orders", "fast"),
        "malformed call": ("dialect", "errors", "read-only"),
        "out of turns": ("single-query", "fast", "most-rows"),
    },
    component=f"{TOOL}query",
)
"""The bank where the description of the tool is what evolves."""


def diagnose(trajectory: Trajectory) -> list[str]:
    """What went wrong, by the names that the remedies know; empty when nothing can be told.

    >>> from evoprompt.types import Assignment, Candidate, Question, Turn
    >>> question = Question("q", "How many orders in 2021 are there?", ("17",))
    >>> asked = Assignment("a", question, Candidate("c", {"i": ""}), 1, "g")
    >>> diagnose(Trajectory(asked, 0.0, turns=(Turn("3"),)))
    ['no query']
    """
    if not trajectory.turns:
        return []
    attempt = Attempt(trajectory, CLOSING)
    queries, wrong = attempt.calls, attempt.wrong
    years = re.findall(r"in (\d{4}) ", trajectory.question.text)
    missing = any(f"year = {year}" not in attempt.said for year in years)
    unknown = any("no such column" in turn.observation for turn in queries)
    found = {
        "no query": wrong and not queries,
        "unknown column": wrong and unknown,
        "condition missing": wrong and bool(queries) and missing,
        "wrong result": wrong and bool(queries) and not unknown and not missing,
        **attempt.of_form,
    }
    return [name for name, applies in found.items() if applies]
