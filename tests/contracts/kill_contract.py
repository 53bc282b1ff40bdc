"""A training that dies, or whose disk is full, and is started again ends as one that never did."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from faults import OPERATIONS, OUTPUT, WORK, Fault, Forks, SmallDisk

Settings = dict[str, Any]
SETTINGS = "settings.json"
"""File in a job's directory: what the host is to change about its job."""

POINTS = "KILL_POINTS"
"""Variable of the environment; ``all`` kills at every operation, not at few."""

OURS = r"evoprompt_state|events\.jsonl|latest_checkpointed"
"""Files that we write, or repair."""

FULL = (
    *("No space left", "File too large"),
    *("PytorchStreamWriter failed", "unexpected pos", "iostream error"),
)
"""How a full disk is told; the second line is torch's way."""


class KillContract:
    """Inherit from it and say which host; its ``main`` leaves ``result.json``.

    Attributes:
        module: of the host.
        paths: folders it needs, from the root of the repository.
        first: settings of a training that ends after its first checkpoint; empty if none can.
        rest: settings of the same training, to its end.
    """

    module: ClassVar[str]
    paths: ClassVar[Sequence[str]] = ()
    first: ClassVar[Settings]
    rest: ClassVar[Settings] = {}

    @pytest.fixture(scope="class")
    @classmethod
    def forks(cls) -> Iterator[Forks]:
        found = Forks(cls.module, *(Path(path).absolute() for path in cls.paths))
        yield found
        found.close()

    @pytest.fixture(scope="class")
    @classmethod
    def begun(cls, forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """A training that has a checkpoint and is not at its end."""
        return cls.done(forks, tmp_path_factory.mktemp("begun"), cls.first)

    @pytest.fixture(scope="class")
    @classmethod
    def whole(cls, forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """A training that nothing happened to."""
        return cls.done(forks, tmp_path_factory.mktemp("whole"), cls.rest)

    @pytest.fixture(scope="class")
    @classmethod
    def resumed(cls, forks: Forks, begun: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """A training that was ended after its first checkpoint, and resumed."""
        directory = tmp_path_factory.mktemp("resumed")
        cls.copy(begun, directory)
        return cls.done(forks, directory, cls.rest)

    @pytest.fixture(autouse=True)
    def _place(self, request: pytest.FixtureRequest, forks: Forks, tmp_path: Path) -> None:
        self.request, self.processes, self.scratch = request, forks, tmp_path

    @classmethod
    def done(cls, forks: Forks, directory: Path, settings: Settings) -> Path:
        (directory / SETTINGS).write_text(json.dumps(settings))
        (directory / WORK).mkdir(exist_ok=True)
        assert forks.run(directory) == 0, (directory / OUTPUT).read_text()[-2000:]
        return directory

    @staticmethod
    def copy(source: Path, target: Path) -> None:
        shutil.copytree(source / WORK, target / WORK, dirs_exist_ok=True)

    def result(self, directory: Path) -> Any:
        return json.loads((directory / "result.json").read_text())

    def operations(self, directory: Path) -> list[str]:
        return (directory / OPERATIONS).read_text().splitlines()

    def kills(self, operations: Sequence[str]) -> list[int]:
        """Where to kill: at one operation of each kind; in the gate at every third of these."""
        if os.environ.get(POINTS) == "all":
            return list(range(len(operations)))
        kinds: dict[str, list[int]] = {}
        for index, name in enumerate(operations):
            kinds.setdefault(kind(name), []).append(index)
        rng = random.Random(0)
        return sorted(rng.choice(indices) for indices in kinds.values())[::3]

    def check_kills(self, start: Path | None, names: list[str], whole: Path) -> None:
        settings, expected, wrong = json.dumps(self.rest), self.result(whole), []
        for index in self.kills(names):
            directory = self.scratch / f"kill-{index}"
            (directory / WORK).mkdir(parents=True)
            if start is not None:
                self.copy(start, directory)
            (directory / SETTINGS).write_text(settings)
            code = self.processes.run(directory, Fault(kill_at=index))
            said = (directory / OUTPUT).read_text()[-2000:]
            assert code == -9, f"not killed at {index} {names[index]}: exit code {code}\n{said}"
            code = self.processes.run(directory)
            if code or self.result(directory) != expected:
                wrong.append(f"{index} {names[index]}: exit code {code}")
            shutil.rmtree(directory)
        killed = len(self.kills(names))
        self.tell(f"{killed - len(wrong)} of {killed} kills ended as if nothing had happened")
        assert not wrong, wrong

    def test_ended_after_a_checkpoint_and_resumed(self, whole: Path, resumed: Path) -> None:
        assert self.result(resumed) == self.result(whole)

    def test_killed_at_every_file_of_a_resumed_training(
        self, begun: Path, whole: Path, resumed: Path
    ) -> None:
        self.check_kills(begun, self.operations(resumed), whole)

    def test_killed_at_every_file_up_to_the_first_checkpoint(
        self, begun: Path, whole: Path
    ) -> None:
        self.check_kills(None, self.operations(begun), whole)

    def test_on_a_disk_that_is_full_at_any_moment(
        self, begun: Path, whole: Path, tmp_path: Path
    ) -> None:
        """Wherever the room ends, the training says so, and goes on when there is room again."""
        files = [file.stat().st_size for file in (whole / WORK).rglob("*") if file.is_file()]
        disk = SmallDisk(tmp_path / WORK, 8 * sum(files))
        if not disk.mounted:
            self.tell("no tmpfs can be mounted here: the size of every file is limited instead")
        most = sum(files) if disk.mounted else max(files)
        points = 24 if os.environ.get(POINTS) == "all" else 4
        refused = 0
        try:
            for point in range(points):
                free = 2 * most * point // points
                for left in (tmp_path / WORK).iterdir():
                    shutil.rmtree(left) if left.is_dir() else left.unlink()
                if self.first:
                    self.copy(begun, tmp_path)
                (tmp_path / SETTINGS).write_text(json.dumps(self.rest))
                (tmp_path / OUTPUT).unlink(missing_ok=True)
                if disk.mounted:
                    disk.fill(free)
                fault = Fault(largest_file=None if disk.mounted else free)
                if self.processes.run(tmp_path, fault):
                    refused += 1
                    said = (tmp_path / OUTPUT).read_text()
                    assert any(reason in said for reason in FULL), said[-2000:]
                if disk.mounted:
                    disk.empty()
                assert self.processes.run(tmp_path) == 0, (tmp_path / OUTPUT).read_text()[-2000:]
                assert self.result(tmp_path) == self.result(whole)
        finally:
            disk.close()
        self.tell(f"{points} disks, {refused} of them full")
        assert refused >= points // 3, "the disk was hardly ever full"

    def tell(self, message: str) -> None:
        """Shows ``message`` however the tests end."""
        plugins = self.request.config.pluginmanager
        with plugins.getplugin("capturemanager").global_and_fixture_disabled():
            line = f"{self.request.node.nodeid}: {message}"
            plugins.getplugin("terminalreporter").write_line(line)


def kind(operation: str) -> str:
    """What ``operation`` has in common with others of the same effect.

    Numbers do not matter, nor which file of a removed checkpoint, nor whether another's file is
    missing or empty. Of our own files both matter.
    """
    found = re.sub(r"\d+", "#", operation)
    found = re.sub(r"(/\.removed-[^/]*/).*", r"\1", found)
    return found if re.search(OURS, found) else found.replace("opened ", "open ")
