"""Callbacks of an optimization: they observe events, and stop it from any thread."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from optimizing import VALIDATION, learn, program
from waiting import PATIENCE

from evoprompt import Event, EvopromptWarning, InputError, OptimizeCallback
from evoprompt.log.eventlog import to_line
from evoprompt.log.events import Evaluated, Evolved


class Recorder(OptimizeCallback):
    """Callback that keeps the events, and stops after an iteration."""

    def __init__(self, stop_after: int | None = None) -> None:
        super().__init__()
        self.events: list[Event] = []
        self._stop_after = stop_after

    def on_event(self, event: Event) -> None:
        """Keep the event."""
        self.events.append(event)
        if isinstance(event, Evolved) and event.step == self._stop_after:
            self.stop()


def test_a_callback_sees_every_event_of_the_log() -> None:
    recorder = Recorder()
    result = learn(callbacks=[recorder])
    assert [to_line(event) for event in recorder.events] == list(map(to_line, result.log))
    assert {Evaluated, Evolved} <= {type(event) for event in recorder.events}


def test_a_callback_stops_after_an_iteration_and_a_resume_goes_on(tmp_path: Any) -> None:
    folder = tmp_path / "run"
    stopped = learn(callbacks=[Recorder(stop_after=1)], directory=folder)
    assert (stopped.stopped, stopped.iterations) == ("it was interrupted", 1)
    resumed, whole = learn(resume=folder), learn()
    assert resumed.rollouts == whole.rollouts
    assert (resumed.value, resumed.best.text) == (whole.value, whole.best.text)


@pytest.mark.parametrize("is_async", [True, False])
def test_another_thread_stops_it_although_calls_never_return(is_async: bool) -> None:
    recorder, is_slow = OptimizeCallback(), threading.Event()
    calls = 0

    def answer(instruction: str, example: str) -> str:
        nonlocal calls
        calls += 1
        if calls > len(VALIDATION) + 4:
            is_slow.set()
            threading.Event().wait()
        return program(instruction, example)

    async def answer_later(instruction: str, example: str) -> str:
        nonlocal calls
        calls += 1
        if calls > len(VALIDATION) + 4:
            is_slow.set()
            await asyncio.Event().wait()
        return program(instruction, example)

    results: list[Any] = []
    run = threading.Thread(
        target=lambda: results.append(
            learn(answer_later if is_async else answer, callbacks=[recorder], max_concurrency=4)
        ),
        daemon=True,
    )
    run.start()
    assert is_slow.wait(PATIENCE)
    recorder.stop()
    run.join(PATIENCE)
    (result,) = results
    assert result.stopped == "it was interrupted"


def test_a_stop_before_the_first_reward_says_so() -> None:
    callback = OptimizeCallback()
    callback.stop()
    with pytest.raises(InputError, match="stopped before the seed instruction was measured"):
        learn(callbacks=[callback])


def test_a_callback_that_raises_is_reported_once_and_costs_nothing() -> None:
    class Broken(OptimizeCallback):
        def on_event(self, event: Event) -> None:
            raise ZeroDivisionError("division by zero")

    recorder = Recorder()
    with pytest.warns(EvopromptWarning, match="callback Broken raised ZeroDivisionError") as seen:
        result = learn(callbacks=[Broken(), recorder])
    assert len(seen) == 1
    assert len(recorder.events) == len(list(result.log))
    assert result.value == learn().value


class _Uninitialized(OptimizeCallback):
    def __init__(self) -> None:
        pass


@pytest.mark.parametrize("given", [print, [print], [OptimizeCallback], [_Uninitialized()]])
def test_what_is_no_callback_is_refused(given: Any) -> None:
    with pytest.raises(InputError, match=r"inherits evoprompt\.OptimizeCallback"):
        learn(callbacks=given)
