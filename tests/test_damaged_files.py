"""A file of a run that was damaged ends in one line and exit code 2, or in a StateError."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest
from command_line import evoprompt, text_of
from counted import counted
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from evoprompt.experiments.cli import run as run_command
from evoprompt.experiments.directory import TrialDirectory
from evoprompt.experiments.eventfile import read_events
from evoprompt.experiments.summary import Clock
from evoprompt.lm.budget import SPENDING_FILE, Charge, SpendTracker
from evoprompt.lm.recording import RecordedError, Recorder, Replay, Response
from evoprompt.lm.settings import BudgetSettings
from evoprompt.support.errors import InputError, StateError
from evoprompt.support.storage import STATE_FILE, load_state

pytestmark = pytest.mark.slow

CONFIG = """\
task: fake
host: fake
engine: {proposer: fake, population_size: 3, prune_every: 2, evolve_every: 4, verify_questions: 4}
budget: 480
evaluate_every: 160
arms: {static: null, coevolve: {host: {interrupt_at: 8}}}
"""
STATIC, COEVOLVE = "trials/static/seed-0", "trials/coevolve/seed-0"
RESULT, SECONDS = f"{STATIC}/result.json", f"{COEVOLVE}/seconds.json"
EVENTS = f"{COEVOLVE}/events.jsonl"


@dataclass
class Run:
    """A stopped run: one trial finished, one with a checkpoint."""

    root: Path
    state: str

    def copy(self, to: Path) -> Run:
        shutil.copytree(self.root, to)
        return Run(to, self.state)


@pytest.fixture(scope="module")
def stopped(
    tmp_path_factory: pytest.TempPathFactory,
    with_fake_task: Callable[[], AbstractContextManager[None]],
) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("stopped")
    (folder / "run.yaml").write_text(CONFIG, encoding="utf-8")
    with with_fake_task():
        assert evoprompt("run", folder / "run.yaml", "-o", folder / "out") == 130
        root = folder / "out"
        spending = SpendTracker(root / SPENDING_FILE)
        call = spending.reserve(Charge(1, 100, 10, 0.5), BudgetSettings(), "m")
        spending.settle(call, Charge(1, 90, 5, 0.25), "m")
        *_, state = sorted((root / COEVOLVE).rglob(STATE_FILE))
        assert (root / RESULT).exists()
        assert (root / SECONDS).exists()
        _forget_the_clock(root)
        yield Run(root, str(state.relative_to(root)))


def _forget_the_clock(root: Path) -> None:
    """Leaves the same bytes in every run: what is changed in them below is chosen by position."""
    for name in (RESULT, SECONDS):
        text = (root / name).read_text(encoding="utf-8")
        text = re.sub(r'"(\w+_seconds|train|engine|verify)":( ?)[^,}\s]+', r'"\1":\g<2>1.5', text)
        (root / name).write_text(text, encoding="utf-8")
    spending = (root / SPENDING_FILE).read_text(encoding="utf-8")
    spending = re.sub(r"[0-9a-f]{32}", "0" * 32, spending)
    (root / SPENDING_FILE).write_text(spending, encoding="utf-8")


@pytest.fixture(autouse=True)
def _undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The picture at the end of a run takes seconds and reads none of these files."""
    monkeypatch.setattr(run_command, "_write_report", lambda directory, console: None)


def refused(*arguments: object) -> str:
    """What a command says that refuses a file."""
    with counted() as work:
        text = text_of(*arguments, code=2)
    assert work.calls < MOST_CALLS
    assert "Traceback" not in text
    return text


DEEP = "[" * 100_000
MOST_CALLS = 10_000_000
"""Of functions; the most is 260,000."""
NUMBERS = ["NaN", '"x"', "9" * 5_000]


def with_number(path: Path, key: str, number: str) -> None:
    """Replaces the first value of ``key`` in the text of a JSON file."""
    before, _, after = path.read_text(encoding="utf-8").partition(f'"{key}":')
    assert after, key
    _, end = json.JSONDecoder().raw_decode(after.lstrip())
    rest = after.lstrip()[end:]
    path.write_text(f'{before}"{key}":{number}{rest}', encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "text"), [(RESULT, "[]"), (SECONDS, DEEP), (SPENDING_FILE, "[]\n"), ("state", DEEP)]
)
def test_a_run_with_a_file_of_something_else_is_not_resumed(
    stopped: Run, tmp_path: Path, name: str, text: str
) -> None:
    run = stopped.copy(tmp_path / "out")
    damaged = run.root / (run.state if name == "state" else name)
    damaged.write_text(text, encoding="utf-8")
    told = refused("run", run.root, "--resume")
    assert damaged.name in told or "the engine state has version None" in told


@pytest.mark.parametrize(
    ("name", "key", "number"),
    [
        (RESULT, "value", "NaN"),
        (SPENDING_FILE, "input_tokens", '"x"'),
        ("state", "step", "9" * 5_000),
        ("state", "rng", "[]"),
    ],
)
def test_a_run_with_a_number_that_is_none_is_not_resumed(
    stopped: Run,
    tmp_path: Path,
    name: str,
    key: str,
    number: str,
) -> None:
    run = stopped.copy(tmp_path / "out")
    with_number(run.root / (run.state if name == "state" else name), key, number)
    refused("run", run.root, "--resume")


def recording(path: Path) -> Path:
    recorder = Recorder(path)
    said = Response(model="m", text="yes", finish_reason="stop", input_tokens=3, output_tokens=4)
    recorder.add({"model": "m", "messages": []}, said)
    recorder.add({"model": "m"}, RecordedError(kind="LMError", status=500, message="no"))
    return path


def test_a_recording_with_a_number_that_is_none_is_refused(tmp_path: Path) -> None:
    for key, number in product(("input_tokens", "response", "request", "error"), NUMBERS):
        path = tmp_path / "lm.jsonl"
        path.unlink(missing_ok=True)
        with_number(recording(path), key, number)
        with pytest.raises(InputError, match="cannot be replayed"):
            Replay(path)


FILES: dict[str, Callable[[Path], object]] = {
    "result.json": lambda path: TrialDirectory(path.parent).finished,
    "seconds.json": Clock,
    SPENDING_FILE: lambda path: SpendTracker(path).spent,
    "lm.jsonl": Replay,
    STATE_FILE: load_state,
    "events.jsonl": lambda path: list(read_events(path)),
}


@seed(20261122)
@settings(
    max_examples=3 * settings().max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    name=st.sampled_from(sorted(FILES)),
    at=st.floats(0, 1, exclude_max=True),
    length=st.integers(0, 40),
    new=st.binary(max_size=12)
    | st.sampled_from([b"NaN", b"1e999", b"null", b"{}", b"[" * 5_000, b"\n", b'"', b"-"]),
)
def test_any_change_of_a_file_is_read_or_refused_in_one_line(
    stopped: Run, tmp_path: Path, name: str, at: float, length: int, new: bytes
) -> None:
    whole = {
        "result.json": stopped.root / RESULT,
        "seconds.json": stopped.root / SECONDS,
        STATE_FILE: stopped.root / stopped.state,
        "events.jsonl": stopped.root / EVENTS,
        "lm.jsonl": tmp_path / "whole.jsonl",
    }.get(name, stopped.root / name)
    if name == "lm.jsonl" and not whole.exists():
        recording(whole)
    text = whole.read_bytes()
    place = int(at * len(text))
    path = tmp_path / name
    path.write_bytes(text[:place] + new + text[place + length :])
    told = ""
    try:
        FILES[name](path)
    except (InputError, StateError) as error:
        told = str(error)
    assert "\n" not in told
    assert len(told) < 5_000
