"""What several test packages share: fixtures."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evoprompt.plugins import plugins

if TYPE_CHECKING:
    from evoprompt.experiments.directory import RunDirectory

collect_ignore: list[str] = []
if sys.version_info >= (3, 13):  # on which veRL does not install; everything else does
    collect_ignore += ["adapters/evoprompt_verl", "integration/verl"]
if not find_spec("tinker_cookbook"):  # in an environment of its own: session tinker of noxfile.py
    collect_ignore += ["adapters/evoprompt_tinker", "integration/tinker"]

FAKES = Path(__file__).parent / "fakes"

# Else litellm asks the network for prices when a test imports DSPy, and tells of it much later.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "true")


@contextmanager
def _fake_task() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FAKES)
        path = os.environ.get("PYTHONPATH")
        patch.setenv("PYTHONPATH", f"{FAKES}{os.pathsep}{path}" if path else str(FAKES))
        plugins.cache_clear()
        yield
    plugins.cache_clear()


@pytest.fixture
def fake_task() -> Iterator[None]:
    """Installs the distribution ``evoprompt-fake``, here and in processes started from here."""
    with _fake_task():
        yield


@pytest.fixture(scope="session")
def with_fake_task() -> Callable[[], AbstractContextManager[None]]:
    """The same as a context, for fixtures of a wider scope."""
    return _fake_task


@pytest.fixture(scope="session")
def finished_run(
    with_fake_task: Callable[[], AbstractContextManager[None]],
    tmp_path_factory: pytest.TempPathFactory,
) -> RunDirectory:
    """A run of two arms with two seeds, made once; to be read or copied, not written to."""
    from evoprompt.experiments.config import RunConfig
    from evoprompt.experiments.directory import RunDirectory
    from evoprompt.experiments.runner import Observer, run

    settings = {
        "task": "fake",
        "host": "fake",
        "engine": {
            "proposer": "fake",
            "accept": "not-worse",
            "evolve_every": 6,
            "prune_every": 5,
            "verify_questions": 10,
        },
        "seeds": 2,
        "budget": 800,
        "evaluate_every": 160,
    }
    root = tmp_path_factory.mktemp("run") / "finished"
    directory = RunDirectory.new(root, RunConfig.model_validate(settings))
    with with_fake_task():
        run(directory, Observer())
    return directory


@pytest.fixture(scope="session")
def whole(
    with_fake_task: Callable[[], AbstractContextManager[None]],
    tmp_path_factory: pytest.TempPathFactory,
) -> RunDirectory:
    """The run of ``watched_runs``, in this process, with nothing in its way; to be read."""
    from watched_runs import Watcher, config

    from evoprompt.experiments.directory import RunDirectory
    from evoprompt.experiments.runner import run

    directory = RunDirectory.new(tmp_path_factory.mktemp("whole") / "out", config())
    with with_fake_task():
        run(directory, Watcher())
    return directory
