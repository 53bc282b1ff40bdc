"""The sentences from which instructions are composed, and what a failed episode shows.

Nothing here tells good sentences from bad, and neither can a proposer but by trying or by reading
failures. What each does to a demonstrator is said in ``demonstrations.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from evoprompt_tiny.idle import IDLE
from evoprompt_tiny.template import CALL, END, call_phrases

from evoprompt.proposers.bank import SentenceBank
from evoprompt.types import Trajectory

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
    "number-only": ("Answer with the number alone.", "Give just the number and nothing else."),
    "sentence": ("Answer in a full sentence.", "Explain the answer in one sentence."),
    "name-things": ("Say what the answer counts.", "Name the things that you counted."),
    "valid-call": ("Close every bracket of a call.", "Write each call as valid JSON."),
    "loose-call": ("Do not bother with the form of a call.", "Brackets may be left out."),
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
    "malformed call": ("valid-call", "loose-call", "rules", "language", "english"),
    "out of turns": ("stop", "hurry", "once", "split", "calm"),
    "wordy answer": ("number-only", "sentence", "answer-it", "quiet", "polite", "name-things"),
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


def compose(ideas: Sequence[str], wording: int = 0) -> str:
    """The instruction that says ``ideas`` in the given wording."""
    return " ".join(SENTENCES[idea][wording] for idea in ideas)


def diagnose(trajectory: Trajectory) -> list[str]:
    """What went wrong, by the names that the remedies know; empty when nothing can be told.

    >>> from evoprompt.types import Assignment, Candidate, Question, Turn
    >>> question = Question("q", "How many orders in 2021 are there?", ("17",))
    >>> asked = Assignment("a", question, Candidate("c", {"i": ""}), 1, "g")
    >>> diagnose(Trajectory(asked, 0.0, turns=(Turn("3"),)))
    ['no query']
    """
    turns = trajectory.turns
    if not turns:
        return []
    queries, last = turns[:-1], turns[-1].action.removesuffix(END)
    called = CALL in last
    right = not called and not set(trajectory.question.answers).isdisjoint(re.findall(r"\d+", last))
    wrong = not called and not right
    years = re.findall(r"in (\d{4}) ", trajectory.question.text)
    said = "".join(turn.action for turn in queries)
    missing = any(f"year = {year}" not in said for year in years)
    unknown = any("no such column" in turn.observation for turn in queries)
    found = {
        "no query": wrong and not queries,
        "unknown column": wrong and unknown,
        "condition missing": wrong and bool(queries) and missing,
        "wrong result": wrong and bool(queries) and not unknown and not missing,
        "malformed call": called and not last.endswith(CLOSING),
        "out of turns": called and last.endswith(CLOSING),
        "wordy answer": not called and not last.strip().isdecimal(),
    }
    return [name for name, applies in found.items() if applies]
