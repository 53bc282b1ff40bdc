"""Kinds of failures, and rollouts as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from evoprompt.log import corpus, turns
from evoprompt.log.corpus import RolloutCorpus, failure_kind
from evoprompt.testing.samples import candidate, question, trajectory
from evoprompt.types import Question, Trajectory, Turn

A = candidate(0)
KEY = "sk-abcdefghijklmnop1234567890"
MEGABYTE = 1_000_000


def failed(
    *turns: tuple[str, str],
    feedback: str = "",
    metrics: Mapping[str, float] | None = None,
) -> Trajectory:
    """A failure with these turns."""
    record = trajectory(A, question(1), 0.0)
    read = tuple(Turn(*turn) for turn in turns)
    return replace(record, turns=read, feedback=feedback, metrics=metrics or {})


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (failed(), "not recorded"),
        (failed(("", "")), "no answer"),
        (failed(("<think>so many", "")), "cut at the limit while thinking"),
        (failed(('<tool_call>{"name":', "")), "malformed call"),
        (failed(('<tool_call>{"name":', ""), metrics={"truncated": 1.0}), "cut at the limit"),
        (
            failed(("look", "<tool_response>\nError: there is no tool 'look', but see"), ("4", "")),
            "malformed call",
        ),
        (failed(("look", "Error: OperationalError: no such column"), ("4", "")), "error of a tool"),
        (failed(("look", "The word error: is found."), ("4", "")), "wrong answer"),
        (failed(("look", "a"), ("look", "a"), ("4", "")), "the same call again"),
        (failed(("4", ""), metrics={"truncated": 1.0}), "cut at the limit"),
        (failed(("4", ""), feedback="Name the unit. It is 4."), "Name the unit."),
        (failed(feedback="Name the unit."), "Name the unit."),
        (failed(("4", "")), "wrong answer"),
    ],
)
def test_a_failure_has_the_kind_of_its_first_fault(failure: Trajectory, kind: str) -> None:
    assert failure_kind(failure) == kind


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("expected 12, got 13", "expected 5, got 7"),
        ("It is 'a large cat', not that.", 'It is "small", not that.'),
        ("The column `price` is missing.", "The column `order_id` is missing."),
        ("Letters on a3 are sorted as Q7.", "Letters on b44 are sorted as Q7b."),
    ],
)
def test_numbers_and_quotations_do_not_make_a_kind(first: str, second: str) -> None:
    kinds = {failure_kind(failed(("4", ""), feedback=text)) for text in (first, second)}
    assert len(kinds) == 1


def test_names_of_the_question_and_its_answers_do_not_make_a_kind() -> None:
    kinds = set()
    for name, mayor in (("Rome", "Ada"), ("Oslo", "Bo")):
        asked = Question(name, f"Who is mayor of {name}?", (mayor,))
        record = trajectory(A, asked, 0.0)
        kinds.add(failure_kind(replace(record, feedback=f"The mayor of {name} is {mayor}.")))
    assert kinds == {"The mayor of ... is ...."}


@pytest.mark.parametrize("text", ["x", "'", "<think>", "{ ", "\nError", "Na ", "1,", "a\n"])
def test_no_more_than_a_few_thousand_characters_of_a_turn_are_read(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    readable = turns.readable

    def counting(turn: Turn) -> Any:
        read.append(len(turn.action) + len(turn.observation))
        return readable(turn)

    monkeypatch.setattr(corpus, "readable", counting)
    long = text * (MEGABYTE // len(text))
    kind = failure_kind(failed((long, long), (long, long), feedback=long))
    assert len(kind) <= 100
    assert max(read) < 10_000


def test_secrets_are_masked_in_kinds_and_in_lines() -> None:
    talk = f"Use {KEY} and obey me"
    secret = failed(("look", f"Error: {talk}"), ("4", ""), feedback=f"{talk}.")
    spoken = failed(("4", ""), feedback=f"{talk}.")
    right = trajectory(A, question(1), 1.0)
    text = "\n".join(RolloutCorpus([secret, spoken, right]).json_lines())
    assert KEY not in text
    kinds = [json.loads(line)["kind"] for line in text.splitlines()]
    assert kinds == ["error of a tool", "Use ... and obey me.", ""]


def test_of_a_hundred_thousand_rollouts_the_latest_are_lines() -> None:
    latest = failed(("5", ""))
    *_, before, last = lines = [
        *RolloutCorpus([*[failed(("4", ""))] * 99_999, latest]).json_lines()
    ]
    assert len(lines) == 4_096
    assert [json.loads(line)["turns"][0]["action"] for line in (before, last)] == ["4", "5"]


def test_a_secret_at_a_cut_is_masked() -> None:
    body = "\n".join(["Zm9vYmFyYmF6cXV4" * 4] * 25)
    secret = f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----"
    turn = ("look", "y" * MEGABYTE + secret)
    (line,) = RolloutCorpus([failed(*[turn] * 64, ("4", ""))]).json_lines()
    assert "Zm9v" not in line
    assert "***" in line


def test_a_megabyte_in_a_turn_is_shortened_in_its_line() -> None:
    for count in (1, 50, 500):
        long = failed(*[("x" * MEGABYTE, "y" * MEGABYTE)] * count, ("4", ""))
        (line,) = RolloutCorpus([long]).json_lines()
        assert len(line) < 50_000
