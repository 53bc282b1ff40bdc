"""Every rollout sees the context variables of the caller, wherever it is made."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import pytest
from optimizing import learn, metric, program
from waiting import PATIENCE

from evoprompt import InputError
from evoprompt.log.evaluation import Score

TENANT: ContextVar[str] = ContextVar("TENANT", default="nobody")


class Contexts:
    """The program and the metric of the tests, which note the tenant of each call."""

    def __init__(self) -> None:
        self.tenants: list[str] = []

    def _note(self) -> None:
        self.tenants.append(TENANT.get())
        TENANT.set("a rollout")  # which no other rollout and no caller may see

    def answer(self, instruction: str, example: str) -> str:
        """Answer as a plain function."""
        self._note()
        return program(instruction, example)

    async def answer_later(self, instruction: str, example: str) -> str:
        """Answer as a coroutine."""
        self._note()
        await asyncio.sleep(0)
        return program(instruction, example)

    def answer_with_run(self, instruction: str, example: str) -> str:
        """Answer as a plain function that runs a loop of its own."""
        return asyncio.run(self.answer_later(instruction, example))

    def judge(self, example: str, output: str) -> Score:
        """Score as a plain function."""
        self._note()
        return metric(example, output)

    async def judge_later(self, example: str, output: str) -> Score:
        """Score as a coroutine."""
        self._note()
        await asyncio.sleep(0)
        return metric(example, output)

    def judge_with_run(self, example: str, output: str) -> Score:
        """Score as a plain function that runs a loop of its own."""
        return asyncio.run(self.judge_later(example, output))


CALLS: dict[str, Callable[[Contexts], tuple[Any, Any]]] = {
    "program": lambda seen: (seen.answer, metric),
    "coroutine": lambda seen: (seen.answer_later, metric),
    "asyncio.run": lambda seen: (seen.answer_with_run, metric),
    "metric": lambda seen: (program, seen.judge),
    "coroutine of a metric": lambda seen: (program, seen.judge_later),
    "asyncio.run of a metric": lambda seen: (program, seen.judge_with_run),
}


def learn_as(tenant: str, of: str, at_once: int) -> tuple[set[str], Any]:
    """Optimize as a tenant; return what the calls have seen, and the result."""
    seen = Contexts()
    token = TENANT.set(tenant)
    try:
        result = learn(*CALLS[of](seen), max_concurrency=at_once)
        assert TENANT.get() == tenant
    finally:
        TENANT.reset(token)
    return set(seen.tenants), result


@pytest.mark.parametrize("of", CALLS)
@pytest.mark.parametrize("at_once", [1, 4])
def test_every_call_sees_the_context_of_the_caller(of: str, at_once: int) -> None:
    tenants, result = learn_as("the caller", of, at_once)
    assert tenants == {"the caller"}
    assert (result.value, result.failures.failed) == (1.0, 0)


@pytest.mark.parametrize("of", CALLS)
@pytest.mark.parametrize("at_once", [1, 4])
def test_a_notebook_may_call_what_runs_a_loop_of_its_own(of: str, at_once: int) -> None:
    async def run_cell() -> tuple[set[str], Any]:
        return learn_as("the notebook", of, at_once)

    tenants, result = asyncio.run(run_cell())
    assert tenants == {"the notebook"}
    assert (result.value, result.failures.failed) == (1.0, 0)


@pytest.mark.parametrize("at_once", [1, 2])
def test_every_rollout_is_made_in_a_thread_of_the_pool(at_once: int) -> None:
    threads: set[threading.Thread] = set()

    def answer(instruction: str, example: str) -> str:
        threads.add(threading.current_thread())
        return program(instruction, example)

    learn(answer, max_concurrency=at_once)
    assert threads
    assert threading.current_thread() not in threads
    assert len(threads) <= at_once


def test_a_metric_that_is_at_fault_in_a_thread_ends_it() -> None:
    calls: list[str] = []

    def judge(example: str, output: str) -> float:
        calls.append(example)
        raise KeyError("answer")

    with pytest.raises(InputError, match="the metric raised KeyError"):
        learn(metric=judge, max_concurrency=4)
    assert len(set(calls)) == 1, "the first call is made alone"


@pytest.mark.lm
@pytest.mark.parametrize("is_async", [True, False])
def test_every_rollout_asks_the_language_model_of_dspys_context(is_async: bool) -> None:
    import dspy

    asked: list[object] = []

    def answer(instruction: str, example: str) -> str:
        asked.append(dspy.settings.lm)
        return program(instruction, example)

    async def answer_later(instruction: str, example: str) -> str:
        return answer(instruction, example)

    def judge(example: str, output: str) -> Score:
        asked.append(dspy.settings.lm)
        return metric(example, output)

    given: Callable[[str, str], str | Awaitable[str]] = answer_later if is_async else answer
    model = dspy.utils.DummyLM([])
    with dspy.context(lm=model):
        learn(given, judge, max_concurrency=4)
    assert len(asked) > 50
    assert all(lm is model for lm in asked)


class LoopBound:
    """Semaphore that a notebook holds, and for which a call of it has waited."""

    def __init__(self) -> None:
        self.places = asyncio.Semaphore(1)

    async def hold(self) -> None:
        """Take the place, and bind the semaphore to this loop by a call that waits for it."""
        await self.places.acquire()
        waiting_call = asyncio.ensure_future(self.places.acquire())
        await asyncio.sleep(0)
        waiting_call.cancel()

    async def answer(self, instruction: str, example: str) -> str:
        """Answer when there is a place."""
        async with self.places:
            await asyncio.sleep(0)
            return program(instruction, example)

    async def judge(self, example: str, output: str) -> Score:
        """Score when there is a place."""
        async with self.places:
            await asyncio.sleep(0)
            return metric(example, output)


async def _raise_closed(instruction: str, example: str) -> str:
    try:
        raise RuntimeError("Event loop is closed")
    except RuntimeError as error:
        raise ConnectionError("Connection error.") from error


@pytest.mark.parametrize("is_metric", [False, True])
def test_an_object_of_another_loop_ends_it_at_the_first_failure(is_metric: bool) -> None:
    async def run_cell() -> None:
        bound = LoopBound()
        await bound.hold()
        learn(*((program, bound.judge) if is_metric else (bound.answer,)), max_concurrency=4)

    with pytest.raises(InputError, match="made within the " + ("metric", "program")[not is_metric]):
        asyncio.run(run_cell())


def test_a_client_of_a_closed_loop_is_known_behind_the_error_of_its_library() -> None:
    with pytest.raises(InputError, match="made within the program"):
        learn(_raise_closed)


INTERRUPTED = """
import asyncio, signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
from optimizing import learn, program
calls = 0
def answer(instruction, example):
    global calls
    calls += 1
    if calls == int(sys.argv[1]):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    if calls >= int(sys.argv[1]):
        threading.Event().wait()
    return program(instruction, example)
try:
    print(learn(answer, max_concurrency=4).stopped, flush=True)
except KeyboardInterrupt:
    print("no call has returned", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("number", "said"), [(1, "no call has"), (12, "it was interrupted")])
def test_a_call_that_never_returns_does_not_keep_an_interrupted_process(
    number: int, said: str
) -> None:
    path = ":".join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(number)],
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, said in done.stdout) == (0, True), done.stderr
