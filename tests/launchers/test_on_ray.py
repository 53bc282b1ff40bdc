"""A real Ray of two nodes, each in processes of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from importlib import import_module
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import TypeVar

import pytest
from launcher_contract import COEVOLVE, LOST_AND_FINISHED, LauncherContract
from ray.cluster_utils import Cluster
from watched_runs import Watcher, config, trial_events

from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.launchers import on_ray
from evoprompt.experiments.launchers.base import Launcher
from evoprompt.experiments.launchers.node import Errand
from evoprompt.experiments.launchers.on_ray import Ray, RaySettings
from evoprompt.experiments.runner import run
from evoprompt.experiments.testing import LauncherSuite
from evoprompt.log.events import Event

# A second dashboard on this machine would find its port taken, and leave a socket open.
HEAD = {"num_cpus": 0, "num_gpus": 0, "include_dashboard": False}

Started = TypeVar("Started")

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("fake_task")]


def started(start: Callable[[], Started]) -> Started:
    """What ``start`` starts, tried again where it did not live.

    A raylet whose agent has not come up after 15 s, as on a busy machine, ends itself ("Timed out
    waiting for file"); no setting of Ray's has it wait longer (2.60, with agents held for 16 s).
    """
    for _ in range(4):
        try:
            return start()
        except Exception as error:
            if "timed out during startup" not in str(error):
                raise
    return start()


@pytest.fixture(scope="module")
def cluster(
    with_fake_task: Callable[[], AbstractContextManager[None]],
) -> Iterator[Cluster]:
    """A head without CPUs, and a node of two."""
    with with_fake_task(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "disabled")
        # Ray gives up on a node after 30 s of its own, which a busy machine may need.
        slow = SimpleNamespace(sleep=time.sleep, time=time.time, monotonic=lambda: monotonic() / 4)
        patch.setattr("ray._private.node.time", slow)
        found = started(lambda: Cluster(initialize_head=True, head_node_args=HEAD))
        started(partial(found.add_node, num_cpus=2, num_gpus=0))
        yield found
        found.shutdown()  # type: ignore[no-untyped-call]


@pytest.fixture
def launcher(cluster: Cluster) -> Iterator[Ray]:
    made = Ray(RaySettings(address=cluster.address))
    assert not made.open()
    yield made
    made.close()


class TestConformance(LauncherSuite):
    def build(self) -> Launcher:
        return Ray(RaySettings())


@pytest.mark.nightly
class TestRay(LauncherContract):
    survives_kills = True


class Fire(Watcher):
    """Takes the only node away in the middle of the trial, and brings another."""

    def __init__(self, cluster: Cluster, hold: Path) -> None:
        super().__init__()
        self._cluster, self._hold = cluster, hold
        self._left = 7

    def on_event(self, trial: TrialId, event: Event) -> None:
        super().on_event(trial, event)
        if event.kind != "step_completed":
            return
        self._left -= 1
        if self._left == 0:
            (node,) = self._cluster.worker_nodes
            self._cluster.remove_node(node, allow_graceful=False)
            started(partial(self._cluster.add_node, num_cpus=2, num_gpus=0))
            self._hold.touch()


def test_a_node_that_is_lost_costs_no_trial(
    cluster: Cluster, launcher: Ray, tmp_path: Path, whole: RunDirectory
) -> None:
    given = config(arms={"coevolve": {}}, host={"hold": str(tmp_path / "hold")})
    directory = RunDirectory.new(tmp_path / "out", given)
    watcher = Fire(cluster, tmp_path / "hold")
    outcome = run(directory, watcher, launcher=launcher)
    assert not outcome.failed
    assert [line.split(":")[0] for line in watcher.said] == LOST_AND_FINISHED
    resumed = [event.step for event in watcher.events[COEVOLVE] if event.kind == "step_completed"]
    assert resumed.count(6) == 2  # done again: the newest checkpoint was that of step 5
    assert resumed.count(5) == 1
    assert trial_events(directory) == trial_events(whole)


def test_what_no_node_has_is_said(cluster: Cluster) -> None:
    launcher = Ray(RaySettings(address=cluster.address, gpus=8))
    try:
        (notice,) = launcher.open()
    finally:
        launcher.close()
    assert "has 1 CPU, 8 GPU: trials wait until one joins that has" in notice


@pytest.mark.nightly
def test_a_node_without_a_package_is_named(
    launcher: Ray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def carry_out(errand: Errand) -> None:
        """As where the errand itself cannot be read."""
        import_module("evoprompt_nowhere")

    monkeypatch.setattr(on_ray, "_carry_out", carry_out)
    directory = RunDirectory.new(tmp_path / "out", config(arms=["coevolve"]))
    watcher = Watcher()
    assert run(directory, watcher, launcher=launcher).bad_input
    said = watcher.said[-1]
    assert "ModuleNotFoundError: No module named 'evoprompt_nowhere'" in said
    assert said.endswith(directory.trial(COEVOLVE).error.read_text().strip())
