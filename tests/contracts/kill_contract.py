"""A training that dies, or whose disk is full, and is started again ends as one that never did."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from faults import OPERATIONS, OUTPUT, WORK, Fault, Forks, SmallDisk

Settings = dict[str, Any]
SETTINGS = "settings.json"
"""File in a job's directory: what the host is to change about its job."""

FULL = ("No space left", "File too large", "PytorchStreamWriter failed", "unexpected pos")
"""How a full disk is told; the last two are torch's way."""


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
        """Where to kill: at every operation on a checkpoint, at every fifth on other files."""
        return [
            index
            for index, name in enumerate(operations)
            if "checkpoint" in name or "global_step" in name or index % 5 == 0
        ]

    def check_kills(
        self, forks: Forks, start: Path | None, names: list[str], whole: Path, scratch: Path
    ) -> None:
        settings, expected, wrong = json.dumps(self.rest), self.result(whole), []
        for index in self.kills(names):
            directory = scratch / f"kill-{index}"
            (directory / WORK).mkdir(parents=True)
            if start is not None:
                self.copy(start, directory)
            (directory / SETTINGS).write_text(settings)
            assert forks.run(directory, Fault(kill_at=index)) == -9, names[index]
            code = forks.run(directory)
            if code or self.result(directory) != expected:
                wrong.append(f"{index} {names[index]}: exit code {code}")
            shutil.rmtree(directory)
        assert not wrong, f"{len(wrong)} of {len(self.kills(names))}: {wrong}"

    def test_ended_after_a_checkpoint_and_resumed(self, whole: Path, resumed: Path) -> None:
        assert self.result(resumed) == self.result(whole)

    def test_killed_at_every_file_of_a_resumed_training(
        self, forks: Forks, begun: Path, whole: Path, resumed: Path, tmp_path: Path
    ) -> None:
        self.check_kills(forks, begun, self.operations(resumed), whole, tmp_path)

    def test_killed_at_every_file_up_to_the_first_checkpoint(
        self, forks: Forks, begun: Path, whole: Path, tmp_path: Path
    ) -> None:
        self.check_kills(forks, None, self.operations(begun), whole, tmp_path)

    def test_on_a_disk_that_is_full_at_any_moment(
        self, forks: Forks, begun: Path, whole: Path, tmp_path: Path
    ) -> None:
        """Wherever the room ends, the training says so, and goes on when there is room again."""
        used = sum(file.stat().st_size for file in (whole / WORK).rglob("*") if file.is_file())
        disk = SmallDisk(tmp_path / WORK, 8 * used)
        refused = 0
        try:
            for free in range(0, 2 * used, max(used // 12, 4096)):
                for left in (tmp_path / WORK).iterdir():
                    shutil.rmtree(left) if left.is_dir() else left.unlink()
                if self.first:
                    self.copy(begun, tmp_path)
                (tmp_path / SETTINGS).write_text(json.dumps(self.rest))
                (tmp_path / OUTPUT).unlink(missing_ok=True)
                limit = None if disk.mounted else free // 8
                if disk.mounted:
                    disk.fill(free)
                if forks.run(tmp_path, Fault(largest_file=limit)):
                    refused += 1
                    said = (tmp_path / OUTPUT).read_text()
                    assert any(reason in said for reason in FULL), said[-2000:]
                disk.empty()
                assert forks.run(tmp_path) == 0, (tmp_path / OUTPUT).read_text()[-2000:]
                assert self.result(tmp_path) == self.result(whole)
        finally:
            disk.close()
        assert refused >= 5, "the disk was never full"
