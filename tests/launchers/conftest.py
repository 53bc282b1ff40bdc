from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from watched_runs import Watcher, config

from evoprompt.experiments.directory import RunDirectory
from evoprompt.experiments.runner import run


@pytest.fixture(scope="package")
def whole(
    with_fake_task: Callable[[], AbstractContextManager[None]],
    tmp_path_factory: pytest.TempPathFactory,
) -> RunDirectory:
    """A run in this process, with nothing in its way."""
    directory = RunDirectory.new(tmp_path_factory.mktemp("whole") / "out", config())
    with with_fake_task():
        run(directory, Watcher())
    return directory
