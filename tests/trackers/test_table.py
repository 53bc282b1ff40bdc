from __future__ import annotations

import warnings
from collections.abc import Sequence

import pytest

import evoprompt
from evoprompt.errors import EvopromptWarning
from evoprompt.eventlog import EventLog
from evoprompt.events import Asked, Evolved, Proposed, Pruned, Seeded, Told
from evoprompt.experiments.trackers import CandidateTables, Row, rows_of
from evoprompt.experiments.trackers.tensorboard import TensorBoard


def log_of_a_generation() -> EventLog:
    log = EventLog()
    for event in (
        Seeded(0, "c0", {"instruction": "Search."}),
        Asked(1, {"c0": 4}),
        Told(1, 8, 8, 0, 0.5, {"c0": 0.5}),
        Proposed(1, "c1", {"instruction": "Look | twice.\n<b>"}, ("c0",), "p"),
        Proposed(1, "c2", {"instruction": "Never."}, ("c0", "c1"), "p"),
        Proposed(1, "", {"instruction": "No."}, ("c0",), "p", "", "leak"),
        Evolved(1, 1, ("c1",), ("c0", "c1"), 4),
        Asked(2, {"c0": 1, "c1": 3}),
        Told(2, 8, 8, 0, 0.5, {"c0": 0.5, "c1": 0.75}),
        Pruned(2, ("c0",), ("c1",)),
    ):
        log.append(event)
    return log


def test_every_candidate_is_a_row() -> None:
    assert rows_of(log_of_a_generation()) == [
        Row("c0", "", "Search.", 0.5, 5, "left"),
        Row("c1", "c0", "Look | twice.\n<b>", 0.75, 3, "alive"),
        Row("c2", "c0, c1", "Never.", None, 0, "not admitted"),
    ]


def test_of_very_many_the_newest_and_the_living_are_rows() -> None:
    log = EventLog()
    log.append(Seeded(0, "c0", {"instruction": "Search."}))
    for number in range(1, 1201):
        log.append(Proposed(1, f"c{number}", {"instruction": "Look."}, ("c0",), "p"))
    names = [row.id for row in rows_of(log)]
    assert names == ["c0", *(f"c{number}" for number in range(201, 1201))]


class Shows:
    def __init__(self) -> None:
        self.steps: list[int] = []

    def show(self, rows: Sequence[Row], step: int) -> None:
        assert rows
        self.steps.append(step)


class Fails(Shows):
    def show(self, rows: Sequence[Row], step: int) -> None:
        super().show(rows, step)
        raise ConnectionError("nobody at http://me:secret@host")


def test_it_is_sent_when_somebody_came_or_left_and_at_the_end() -> None:
    engine, tracker = evoprompt.Engine(["Search.", "Look."]), Shows()
    tables = CandidateTables(engine)
    tables.send([], 1)
    for step in (2, 3):
        tables.send([tracker], step)
    engine.population.remove({"c0"})
    tables.send([tracker], 4)
    tables.send([tracker], 5)
    for _ in range(2):
        tables.send([tracker], 6, last=True)
    assert tracker.steps == [2, 4, 6]


def test_a_tracker_that_fails_ends_no_training_and_is_asked_once() -> None:
    fails, works = Fails(), Shows()
    tables = CandidateTables(evoprompt.Engine(["Search."]))
    with pytest.warns(EvopromptWarning, match=r"Fails did not take .*http://\*\*\*@host"):
        tables.send([fails, works], 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tables.send([fails, works], 2, last=True)
    assert (fails.steps, works.steps) == ([1], [1, 2])


def test_no_text_breaks_the_table_of_tensorboard() -> None:
    class Board:
        text = ""

        def add_text(self, tag: str, text_string: str, global_step: int) -> None:
            assert (tag, global_step) == ("evoprompt/candidates", 7)
            self.text = text_string

        def flush(self) -> None:
            """Nothing is held back."""

    board = Board()
    TensorBoard(board).show(rows_of(log_of_a_generation()), 7)
    lines = board.text.splitlines()
    assert lines[0] == "| id | parents | text | weight | draws | status |"
    assert lines[3] == "| c1 | c0 | Look \\| twice.<br>&lt;b> | 0.75 | 3 | alive |"
    assert len(lines) == 2 + 3
