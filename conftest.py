"""What holds for every test: its group, the examples of property tests, where it may write."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run, on any machine however slow; the profile `thorough` takes more.
REPEATABLE = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("repeatable", REPEATABLE)
settings.register_profile("thorough", REPEATABLE, max_examples=60)
settings.load_profile("repeatable")

# Models here are tiny: threads, of torch in this process and in others, get in each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Python 3.11 makes an event loop for whoever asks for that of the main thread, as litellm does for
# its logging, and the next asyncio.run drops it unclosed. Where there is none they make their own.
asyncio.set_event_loop(None)

BEYOND_THE_CORE = (
    *("adapters", "examples", "plugins", "tests/adapters", "tests/agents/chat", "tests/benchmarks"),
    *("tests/browser", "tests/dspy_optimizer", "tests/export", "tests/gateway"),
    *("tests/integration", "tests/launchers", "tests/report"),
    *("tests/cli/test_answers.py", "tests/cli/test_doctor.py", "tests/cli/test_optimize_table.py"),
    *("tests/cli/test_traces.py", "tests/runs/test_search.py", "tests/runs/test_timing.py"),
    *("tests/test_credentials.py", "tests/test_documented_commands.py", "tests/test_picture.py"),
    *("tests/test_quickstarts.py", "tests/test_readme.py", "tests/test_results.py"),
    *("tests/test_rows.py", "tests/test_tasks_guide.py"),
)
"""Folders and files that need an extra or an example; not even collected for the quick loop."""

GROUPS = {"browser", "endpoint", "exact", "gpu", "lm", "nightly", "report", "slow", "verl"}
"""Markers of tests that need an extra or patience."""

LAST = tuple(
    f"tests/{folder}/" for folder in ("agents", "attributors", "engine", "proposers", "selectors")
)
"""Folders of files that take seconds: begun last, so that no worker waits long for the other."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if config.option.markexpr != "quick":
        return None
    path = collection_path.relative_to(config.rootpath)
    return True if any(path.is_relative_to(folder) for folder in BEYOND_THE_CORE) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not any(mark.name in GROUPS for mark in item.iter_markers()):
            item.add_marker(pytest.mark.quick)
    items.sort(key=lambda item: item.nodeid.startswith(LAST))


def pytest_collection_finish() -> None:
    gc.freeze()  # whatever was imported stays; every collection would look through all of it


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """In a session of nox a skipped test is a failure."""
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


KNOWN = pytest.StashKey[set[str]]()
"""What is in the folder that the tests were started for."""

CLIENTS: dict[int, object] = {}
"""HTTP clients that litellm made in a test, by identity."""


def pytest_sessionstart(session: pytest.Session) -> None:
    session.stash[KNOWN] = _visible(session.config.rootpath)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fails a test, or what it needs, that leaves something beside the sources."""
    yield
    _keep_clients_of_litellm()
    known = item.session.stash[KNOWN]
    new = _visible(item.config.rootpath) - known
    known |= new  # only the test that made it fails
    if new:
        pytest.fail(
            f"{', '.join(sorted(new))} was left in {item.config.rootpath}; write to tmp_path",
            pytrace=False,
        )


def _keep_clients_of_litellm() -> None:
    """Keep the clients that litellm caches: after ten minutes it drops them without closing them.

    Without this, the test that runs then fails for the open sockets of another test.
    """
    if "litellm" in sys.modules:
        cache = sys.modules["litellm"].in_memory_llm_clients_cache
        CLIENTS.update((id(client), client) for client in cache.cache_dict.values())


def _visible(folder: Path) -> set[str]:
    """The names in ``folder``, without caches and what begins with a dot."""
    names = (path.name for path in folder.iterdir())
    return {name for name in names if name != "__pycache__" and not name.startswith(".")}
