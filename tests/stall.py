"""Runs tests in a random order on a machine that seems to stop: what bets on a clock fails here.

    python tests/stall.py tests/runs tests/lm --seed 7

Everything but ``--seed`` is pytest's. Every few seconds the whole process group is stopped for 0.5
to 5 s. Ends with pytest's exit code.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

SEED, RAN = "EVOPROMPT_STALL_SEED", "EVOPROMPT_STALL_RAN"


class Shuffling:
    """A pytest plugin: modules in a random order, and the tests of each; counts what ran."""

    def __init__(self, seed: int, ran: Path) -> None:
        self._seed, self._ran = seed, ran

    @pytest.hookimpl(tryfirst=True)  # pytest itself keeps together what shares a fixture
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Shuffles."""
        rng = random.Random(self._seed)
        modules: dict[Path, list[pytest.Item]] = {}
        for item in items:
            modules.setdefault(item.path, []).append(item)
        found = list(modules.values())
        rng.shuffle(found)
        for module in found:
            rng.shuffle(module)
        items[:] = [item for module in found for item in module]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts."""
        if report.when == "call":
            with self._ran.open("a") as file:
                file.write(".")


def pytest_configure(config: pytest.Config) -> None:
    """Shuffles where this is loaded by name."""
    config.pluginmanager.register(Shuffling(int(os.environ[SEED]), Path(os.environ[RAN])))


def main() -> int:
    """Runs pytest, stops it now and then, and says how often; pytest's exit code."""
    parser = argparse.ArgumentParser(description=__doc__, add_help=False)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options, given = parser.parse_known_args()
    rng, stops = random.Random(options.seed), 0
    with tempfile.NamedTemporaryFile() as ran:
        paths = [os.environ.get("PYTHONPATH", ""), str(Path(__file__).parent)]
        tests = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", "stall", *given],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                SEED: str(options.seed),
                RAN: ran.name,
            },
            process_group=0,
        )
        try:
            while _runs_for(tests, rng.uniform(2, 6)):
                os.killpg(tests.pid, signal.SIGSTOP)
                stops += 1
                time.sleep(rng.uniform(0.5, 5))
                os.killpg(tests.pid, signal.SIGCONT)
        finally:
            if tests.poll() is None:
                os.killpg(tests.pid, signal.SIGKILL)
        count = len(ran.read())
    print(f"{count:,} tests ran and were stopped {stops:,} times; --seed {options.seed}")
    return tests.returncode


def _runs_for(tests: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether the tests have not ended after ``seconds``."""
    try:
        tests.wait(seconds)
    except subprocess.TimeoutExpired:
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())
