from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from evoprompt.lm import (
    BudgetError,
    BudgetSettings,
    Charge,
    LmError,
    Prices,
    Spending,
    SpendTracker,
)
from evoprompt.support.errors import StateError

FREE = BudgetSettings()
CALL = Charge(1, 100, 50, 0.01)


@pytest.mark.parametrize(
    "budget",
    [BudgetSettings(calls=3), BudgetSettings(tokens=450), BudgetSettings(usd=0.0301)],
)
def test_a_call_that_could_go_over_the_budget_is_not_made(budget: BudgetSettings) -> None:
    spending = SpendTracker()
    for _ in range(3):
        spending.reserve(CALL, budget)
    with pytest.raises(BudgetError, match="budget"):
        spending.reserve(CALL, budget)
    assert spending.spent == Charge(3, 300, 150, 0.03)
    assert spending.spent.tokens == 450


_SPEND = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from evoprompt.lm import BudgetError, BudgetSettings, Charge, SpendTracker
spending = SpendTracker(Path(sys.argv[1]))

def spend(_):
    try:
        call = spending.reserve(Charge(1, 100, 50, 0.01), BudgetSettings(calls=100, usd=0.55))
    except BudgetError:
        return 0
    assert spending.spent.usd <= 0.55
    spending.settle(call, Charge(1, 90, 40, 0.005))
    return 1

print("ready", flush=True)
input()
with ThreadPoolExecutor(8) as pool:
    print(sum(pool.map(spend, range(60))))
"""


def test_threads_of_processes_never_go_over_the_budget(tmp_path: Path) -> None:
    journal = tmp_path / "spending.jsonl"
    command, pipe = [sys.executable, "-c", _SPEND, str(journal)], subprocess.PIPE
    spenders = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(3)]
    for spender in spenders:
        assert spender.stdout is not None
        assert spender.stdout.readline() == "ready\n"
    for spender in spenders:  # now that all are there
        assert spender.stdin is not None
        spender.stdin.write("\n")
        spender.stdin.flush()
    made = [int(spender.communicate()[0]) for spender in spenders]
    spent = SpendTracker(journal).spent
    assert sum(made) == spent.calls == 100
    assert spent.usd == pytest.approx(0.5)


def test_a_killed_process_leaves_its_open_calls_paid(tmp_path: Path) -> None:
    journal = tmp_path / "run" / "spending.jsonl"
    before = SpendTracker(journal)
    before.settle(before.reserve(CALL, FREE), Charge(1, 80, 10, 0.002))
    before.reserve(CALL, FREE)
    with journal.open("a") as file:
        file.write('{"call": "2", "charge": {"calls": 1, "inp')  # the kill came within a line
    after = SpendTracker(journal)
    assert after.spent == Charge(2, 180, 60, 0.012)
    number = after.reserve(CALL, FREE)
    assert SpendTracker(journal).spent.calls == 3  # killed once more
    after.settle(number, Charge(1))
    assert SpendTracker(journal).spent == Charge(3, 180, 60, 0.012)


def test_a_checkpoint_brings_back_what_was_spent_and_never_money(tmp_path: Path) -> None:
    spending = SpendTracker(tmp_path / "spending.jsonl")
    spending.reserve(CALL, FREE)
    checkpoint = json.loads(json.dumps(spending.state_dict()))
    in_memory = SpendTracker()
    in_memory.load_state_dict(checkpoint)
    assert in_memory.spent == CALL
    spending.settle(spending.reserve(CALL, FREE), CALL)
    resumed = SpendTracker(tmp_path / "spending.jsonl")
    resumed.load_state_dict(checkpoint)
    assert resumed.spent == Charge(2, 200, 100, 0.02)
    with pytest.raises(StateError):
        resumed.load_state_dict({"calls": "many"})
    assert resumed.spent == Charge(2, 200, 100, 0.02)


class RefusedError(Exception):
    def __init__(self, status: int | None) -> None:
        self.status = status


PRICED = Prices(input=1.0, output=1_000_000.0)
MOST = 7.0  # USD of seven tokens; those of the prompt cost next to nothing


@pytest.mark.parametrize(
    ("used", "usd"),
    [
        ((3, 2), 2.0),
        ((0, 0), 0.0),
        ((None, 2), MOST),
        ((3, -2), MOST),
        ((3, "2"), MOST),
        ((3.5, 2), MOST),
    ],
)
def test_a_usage_that_is_no_number_of_tokens_counts_as_the_most(
    used: tuple[object, object], usd: float
) -> None:
    spending = Spending(prices=PRICED)
    with spending.paid("m", "hello", 7) as attempt:
        attempt.used(*used)
    assert spending.tracker.spent.usd == pytest.approx(usd, abs=0.01)
    assert spending.tracker.settled["m"].calls == 1


@pytest.mark.parametrize(
    ("error", "usd"),
    [
        (RefusedError(429), 0.0),
        (RefusedError(None), MOST),
        (LmError("late"), MOST),
        (KeyboardInterrupt(), MOST),
    ],
)
def test_what_was_refused_costs_a_call_and_what_was_dropped_may_have_been_billed(
    error: BaseException, usd: float
) -> None:
    spending = Spending(prices=PRICED)
    with pytest.raises(type(error)), spending.paid("m", "hello", 7):
        raise error
    assert spending.tracker.spent.usd == pytest.approx(usd, abs=0.01)
    assert spending.tracker.spent.calls == 1


def test_the_bytes_of_a_request_bound_its_tokens_before_it_is_sent() -> None:
    spending = Spending(budget=BudgetSettings(tokens=1_000))
    for request in ("x" * 1_000, "語" * 334, {"prompt": [7] * 400}):
        with pytest.raises(BudgetError, match="tokens"), spending.paid("m", request, 0):
            raise AssertionError("it was sent")
    assert spending.tracker.spent == Charge()


@pytest.mark.parametrize("tokens", [-1, -27_030])
def test_an_entry_that_could_not_be_read_again_is_not_written(tmp_path: Path, tokens: int) -> None:
    path = tmp_path / "spending.jsonl"
    tracker = SpendTracker(path)
    tracker.reserve(Charge(1, 5, 5), BudgetSettings())
    with pytest.raises(ValidationError):
        tracker.reserve(Charge(1, 5, tokens), BudgetSettings())
    with pytest.raises(ValidationError):
        tracker.settle("a call", Charge(1, tokens, 5))
    assert tracker.spent == SpendTracker.from_journal(path).spent == Charge(1, 5, 5)


@pytest.mark.parametrize("counts", [(10**9, 5), (-1, 5), (5, 10**9), ("7", 5), (None, None)])
def test_usage_that_is_not_credible_is_counted_in_full(counts: tuple[object, object]) -> None:
    spending = Spending(prices=Prices(input=1.0, output=1.0))
    with spending.paid("m", "a question", 20) as attempt:
        reserved = attempt.charge
        attempt.used(*counts)
    assert spending.tracker.spent == reserved
    with spending.paid("m", "a question", 20) as attempt:
        attempt.used(7, 5)
    assert spending.tracker.spent == reserved + spending.charge(7, 5)
