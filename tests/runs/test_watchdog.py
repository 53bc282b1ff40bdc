from __future__ import annotations

import threading

from waiting import PATIENCE

from evoprompt.engine import Engine
from evoprompt.experiments.hosts.watchdog import Watchdog
from evoprompt.log.events import Event, Notice


class Groups:
    """Open groups, and a clock, both as a test sets them."""

    def __init__(self, count: int) -> None:
        self.open = count
        self.seconds = 0.0
        self.said: list[str] = []

    def watched(self) -> Watchdog:
        engine = Engine(["Answer."])
        engine.log.subscribe(self.hear)
        return Watchdog(lambda: self.open, 512, engine, now=lambda: self.seconds)

    def hear(self, event: Event) -> None:
        assert isinstance(event, Notice)
        self.said.append(event.message)


def test_it_says_that_no_group_was_finished_for_ten_minutes_and_again_after_ten() -> None:
    groups = Groups(512)
    dog = groups.watched()
    for minute, left in ((5, 512), (9, 300), (14, 3), (23, 3)):
        groups.seconds, groups.open = minute * 60, left
        dog.check_progress()
    assert groups.said == []
    groups.seconds = 24 * 60
    dog.check_progress()
    groups.seconds = 33 * 60
    dog.check_progress()
    (told,) = groups.said
    assert told.startswith("3 of 512 groups are open, and none was finished for 10 minutes")
    groups.seconds = 34 * 60
    dog.check_progress()
    assert len(groups.said) == 2


def test_a_moment_in_which_nobody_can_tell_is_no_progress() -> None:
    groups = Groups(512)
    dog = groups.watched()
    for minute, left in ((1, 3), (5, 0), (11, 3)):
        groups.seconds, groups.open = minute * 60, left
        dog.check_progress()
    assert len(groups.said) == 1


def test_it_looks_while_something_else_waits_and_no_longer() -> None:
    told = threading.Event()
    groups, engine = Groups(2), Engine(["Answer."])
    engine.log.subscribe(groups.hear)
    engine.log.subscribe(lambda event: told.set())
    before = threading.active_count()
    with Watchdog(lambda: 2, 8, engine, "rollouts", patience=0, pause=0.001).watching():
        assert told.wait(PATIENCE)
    assert groups.said[0].startswith("2 of 8 rollouts are open")
    assert "notice" not in [event["event"] for event in engine.log]
    assert threading.active_count() == before
