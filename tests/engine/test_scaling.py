"""What the engine does for a question does not grow with the questions of a step."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import FrameType

import pytest

from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.proposers.combinators import NoProposer
from evoprompt.types import Question

ROLLOUTS = 5


def engine() -> Engine:
    """Return an engine whose questions have a candidate for each rollout."""
    config = EngineConfig(candidates_per_question=ROLLOUTS)
    return Engine(["Add.", "Count."], proposer=NoProposer(), config=config)


def questions(number: int) -> list[Question]:
    return [Question(f"q{index}", f"Question {index}?") for index in range(number)]


@pytest.fixture
def without_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collections")
def test_a_pending_assignment_is_one_object_for_the_garbage_collector() -> None:
    asked, batch = engine(), questions(400)
    before = len(gc.get_objects())
    assignments = asked.ask(batch, 1)
    assert len(gc.get_objects()) - before < 1.1 * len(assignments)


def test_asking_one_by_one_looks_at_no_other_pending_assignment() -> None:
    few, many = calls_of_single_asks(50), calls_of_single_asks(500)
    assert many < 11 * few


def calls_of_single_asks(number: int) -> int:
    """Return the Python calls that asking the questions of a step one by one takes."""
    asked, batch, calls = engine(), questions(number), 0

    def count(_frame: FrameType, _event: str, _argument: object) -> None:
        nonlocal calls
        calls += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for question in batch:
            asked.ask([question], 1, step_of=number)
    finally:
        sys.setprofile(before)
    return calls
