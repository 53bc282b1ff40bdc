from __future__ import annotations

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evoprompt.errors import StateError
from evoprompt.lm import BudgetError, BudgetSettings, Charge, SpendTracker

FREE = BudgetSettings()
CALL = Charge(1, 100, 50, 0.01)


def test_a_settled_call_costs_what_it_cost() -> None:
    spending = SpendTracker()
    spending.settle(spending.reserve(CALL, FREE), Charge(1, 80, 10, 0.002))
    assert spending.spent == Charge(1, 80, 10, 0.002)


def test_an_open_call_counts_as_the_most_it_can_cost() -> None:
    spending = SpendTracker()
    spending.reserve(CALL, FREE)
    assert spending.spent == CALL
    assert spending.spent.tokens == 150


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
    assert spending.spent.calls == 3


def test_what_a_call_did_not_use_is_free_for_the_next() -> None:
    spending, budget = SpendTracker(), BudgetSettings(tokens=200)
    for _ in range(4):
        spending.settle(spending.reserve(CALL, budget), Charge(1, 10, 2, 0.0))
    assert spending.spent.tokens == 48


def test_32_threads_never_go_over_the_budget() -> None:
    spending, budget = SpendTracker(), BudgetSettings(calls=100, usd=0.55)
    gate = threading.Barrier(32)
    highest: list[float] = []

    def spend() -> int:
        gate.wait()
        made = 0
        for _ in range(20):
            try:
                number = spending.reserve(CALL, budget)
            except BudgetError:
                continue
            made += 1
            highest.append(spending.spent.usd)
            spending.settle(number, Charge(1, 90, 40, 0.005))
        return made

    with ThreadPoolExecutor(32) as pool:
        made = sum(pool.map(lambda _: spend(), range(32)))
    assert made == spending.spent.calls == 100
    assert max(highest) <= 0.55
    assert spending.spent.usd == pytest.approx(0.5)


def test_a_killed_process_leaves_its_open_calls_paid(tmp_path: Path) -> None:
    journal = tmp_path / "run" / "spending.jsonl"
    before = SpendTracker(journal)
    before.settle(before.reserve(CALL, FREE), Charge(1, 80, 10, 0.002))
    before.reserve(CALL, FREE)
    with journal.open("a") as file:
        file.write('{"reserve": 2, "calls": 1, "inp')  # the kill came in the middle of a line
    after = SpendTracker(journal)
    assert after.spent == Charge(2, 180, 60, 0.012)
    number = after.reserve(CALL, FREE)
    assert SpendTracker(journal).spent.calls == 3  # killed once more
    after.settle(number, Charge(1))
    assert SpendTracker(journal).spent == Charge(3, 180, 60, 0.012)


def test_ledgers_of_one_journal_count_together(tmp_path: Path) -> None:
    first, second = (
        SpendTracker(tmp_path / "spending.jsonl"),
        SpendTracker(tmp_path / "spending.jsonl"),
    )
    budget = BudgetSettings(calls=3)
    open_call = first.reserve(CALL, budget, "a")
    second.settle(second.reserve(CALL, budget, "b"), Charge(1, 80, 10, 0.002), "b")
    assert first.spent == second.spent == Charge(2, 180, 60, 0.012)
    first.settle(open_call, Charge(1), "a")
    second.reserve(CALL, budget, "a")
    with pytest.raises(BudgetError, match="3"):
        first.reserve(CALL, budget, "a")
    assert first.has_answer_of("b")
    assert not second.has_answer_of("a")  # it was refused without a token


_SPEND = """
import sys
from pathlib import Path
from evoprompt.lm import BudgetError, BudgetSettings, Charge, SpendTracker
spending, made = SpendTracker(Path(sys.argv[1])), 0
for _ in range(8):
    try:
        call = spending.reserve(Charge(1, 100, 50, 0.01), BudgetSettings(calls=100, usd=0.55))
    except BudgetError:
        continue
    made += 1
    assert spending.spent.usd <= 0.55
    spending.settle(call, Charge(1, 90, 40, 0.005))
print(made)
"""


@pytest.mark.slow
def test_processes_side_by_side_never_go_over_the_budget(tmp_path: Path) -> None:
    journal = tmp_path / "spending.jsonl"
    command = [sys.executable, "-c", _SPEND, str(journal)]
    spenders = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(32)]
    made = [int(spender.communicate()[0]) for spender in spenders]
    assert sum(made) == SpendTracker(journal).spent.calls == 100
    assert sum(count > 0 for count in made) > 1


def test_a_resumed_ledger_continues() -> None:
    before = SpendTracker()
    before.reserve(CALL, FREE)
    after = SpendTracker()
    after.load_state_dict(json.loads(json.dumps(before.state_dict())))
    assert after.spent == CALL


def test_a_checkpoint_does_not_bring_money_back(tmp_path: Path) -> None:
    spending = SpendTracker(tmp_path / "spending.jsonl")
    spending.settle(spending.reserve(CALL, FREE), CALL)
    checkpoint = spending.state_dict()
    spending.settle(spending.reserve(CALL, FREE), CALL)
    resumed = SpendTracker(tmp_path / "spending.jsonl")
    resumed.load_state_dict(checkpoint)
    assert resumed.spent == Charge(2, 200, 100, 0.02)


def test_a_broken_state_changes_nothing() -> None:
    spending = SpendTracker()
    with pytest.raises(StateError):
        spending.load_state_dict({"calls": "many"})
    assert spending.spent == Charge()
