"""An optimization that is killed, wherever that is, goes on to the same end, event by event."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from faults import OPERATIONS, OUTPUT, WORK, Fault, Forks
from kill_contract import POINTS, kind
from optimize_kills import CALLS, SETTINGS

pytestmark = pytest.mark.slow

AT_A_TIME = 4  # calls of the program that a kill may leave unfinished


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    found = Forks("optimize_kills")
    yield found
    found.close()


@pytest.fixture(scope="module")
def whole(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An optimization that nothing happened to, and that is worth killing."""
    directory = done(forks, tmp_path_factory.mktemp("whole"))
    found = result(directory)
    assert found["value"] == 1.0
    assert sum(call.startswith("proposer") for call in calls(directory)) > 10
    return directory


def begun(directory: Path, **settings: Any) -> Path:
    (directory / WORK).mkdir(parents=True, exist_ok=True)
    (directory / SETTINGS).write_text(json.dumps(settings))
    return directory


def done(forks: Forks, directory: Path, **settings: Any) -> Path:
    assert forks.run(begun(directory, **settings)) == 0, (directory / OUTPUT).read_text()[-2000:]
    return directory


def result(directory: Path) -> Any:
    return json.loads((directory / "result.json").read_text())


def calls(directory: Path) -> list[str]:
    path = directory / CALLS
    return path.read_text().splitlines() if path.exists() else []


def lines(directory: Path, count: int) -> list[int]:
    """Numbers of lines that were appended to files: the first, the last, and some between."""
    files = [*(directory / WORK).rglob("*.jsonl")]
    return some(range(sum(len(file.read_bytes().splitlines()) for file in files)), count)


def some(points: Sequence[int], count: int) -> list[int]:
    """The first and the last of ``points``, and some between."""
    if os.environ.get(POINTS) == "all":
        return list(points)
    return [points[0], *sorted(random.Random(0).sample(points[1:-1], count - 2)), points[-1]]


def check(forks: Forks, whole: Path, directory: Path, fault: Fault, **settings: Any) -> None:
    """Kills it once, and compares what it comes to then."""
    code = forks.run(begun(directory, **settings), fault)
    assert code == -9, f"{fault} {settings}: {code} {(directory / OUTPUT).read_text()[-2000:]}"
    settings = {name: value for name, value in settings.items() if not name.endswith("_at")}
    done(forks, directory, **settings)
    assert result(directory) == result(whole), (fault, settings)
    asked, once = sorted(calls(directory)), sorted(calls(whole))
    assert set(asked) == set(once)
    assert len(asked) <= len(once) + AT_A_TIME


def test_in_the_middle_of_a_line(forks: Forks, whole: Path, tmp_path: Path) -> None:
    for cut_at in lines(whole, 4):
        check(forks, whole, tmp_path / str(cut_at), Fault(), cut_at=cut_at)


def test_while_several_rollouts_are_under_way(forks: Forks, whole: Path, tmp_path: Path) -> None:
    made = sum(call.startswith("program") for call in calls(whole))
    for call_at in some(range(made), 3):
        check(forks, whole, tmp_path / str(call_at), Fault(), call_at=call_at)


def test_at_every_kind_of_operation_on_its_files(forks: Forks, whole: Path, tmp_path: Path) -> None:
    names = (whole / OPERATIONS).read_text().splitlines()
    first = {kind(name): index for index, name in reversed([*enumerate(names)])}
    last = {kind(name): index for index, name in enumerate(names)}
    assert len(first) > 8
    for kill_at in some(sorted({*first.values(), *last.values()}), 8):
        check(forks, whole, tmp_path / str(kill_at), Fault(kill_at=kill_at))


def test_with_several_seeds(forks: Forks, tmp_path: Path) -> None:
    whole = done(forks, tmp_path / "whole", seeds=2)
    for cut_at in lines(whole, 2):
        check(forks, whole, tmp_path / str(cut_at), Fault(), cut_at=cut_at, seeds=2)
    names = (whole / OPERATIONS).read_text().splitlines()
    at = names.index("open run/seed-1/.settings.yaml.tmp")
    for kill_at in (at, at + 2):
        check(forks, whole, tmp_path / f"file {kill_at}", Fault(kill_at=kill_at), seeds=2)


def test_killed_again_and_again(forks: Forks, whole: Path, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    for cut_at in (40, 60, 80, 100):
        assert forks.run(begun(directory, cut_at=cut_at)) == -9
    done(forks, directory)
    assert result(directory) == result(whole)
    assert len(calls(directory)) <= len(calls(whole)) + 4 * AT_A_TIME
