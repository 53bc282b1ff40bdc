"""A build that is killed, or has no room, leaves nothing that is taken for an index."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from evoprompt_retrieval.disk_space import building
from faults import OPERATIONS, OUTPUT, WORK, Fault, Forks, SmallDisk
from retrieval_kills import CORPUS

PASSAGES = 350
REMEDY = "make room or give --index on another disk, then give the same command again"


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    found = Forks("retrieval_kills")
    yield found
    found.close()


@pytest.fixture(scope="module")
def whole(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build that nothing happened to."""
    directory = tmp_path_factory.mktemp("whole")
    rng = random.Random(0)
    with gzip.open(directory / CORPUS, "wt") as file:
        for number in range(PASSAGES):
            text = " ".join(f"word{int(rng.expovariate(0.01))}" for _ in range(60))
            file.write(json.dumps({"id": str(number), "contents": text}) + "\n")
    (directory / WORK).mkdir()
    assert forks.run(directory) == 0, (directory / OUTPUT).read_text()
    return directory


def files(directory: Path) -> dict[str, bytes]:
    work = directory / WORK
    return {str(p.relative_to(work)): p.read_bytes() for p in work.rglob("*") if p.is_file()}


def begin(whole: Path, directory: Path) -> Path:
    (directory / WORK).mkdir(parents=True, exist_ok=True)
    shutil.copy(whole / CORPUS, directory)
    return directory


@pytest.mark.slow
def test_a_build_that_was_killed_at_any_file_is_finished_by_the_same_command(
    forks: Forks, whole: Path, tmp_path: Path
) -> None:
    operations = (whole / OPERATIONS).read_text().splitlines()
    assert {"opened index/bm25/data.npy"} <= set(operations)
    every = os.environ.get("KILL_POINTS") == "all"
    for number, name in list(enumerate(operations))[:: 1 if every else 4]:
        directory = begin(whole, tmp_path / str(number))
        assert forks.run(directory, Fault(kill_at=number)) == -9, name
        assert not (directory / WORK / "index" / "bm25" / "bm25.json").exists()
        assert forks.run(directory) == 0, (name, (directory / OUTPUT).read_text())
        assert files(directory) == files(whole), name


@pytest.mark.slow
def test_without_room_a_build_says_so_and_is_finished_when_there_is_some(
    forks: Forks, whole: Path, tmp_path: Path
) -> None:
    sizes = [len(content) for content in files(whole).values()]
    begin(whole, tmp_path)
    disk = SmallDisk(tmp_path / WORK, 8 * sum(sizes))
    most, refused = sum(sizes) if disk.mounted else max(sizes), 0
    try:
        for point in range(8):
            free = 2 * most * point // 8
            shutil.rmtree(tmp_path / WORK / "index", ignore_errors=True)
            (tmp_path / OUTPUT).unlink(missing_ok=True)
            if disk.mounted:
                disk.fill(free)
            limit = None if disk.mounted else max(free, 20_000)  # what is printed has room
            code = forks.run(tmp_path, Fault(largest_file=limit))
            said = " ".join((tmp_path / OUTPUT).read_text().split())
            if code:
                refused += 1
                assert code == 1, (free, code)  # by no signal
                assert "SystemExit: 1" in said
                assert "No space left on device" in said or "File too large" in said
                assert REMEDY in said
                assert not (tmp_path / WORK / "index" / "bm25" / "bm25.json").exists()
            if disk.mounted:
                disk.empty()
            assert forks.run(tmp_path) == 0
            assert files(tmp_path) == files(whole)
    finally:
        disk.close()
    assert refused >= 3


def test_other_faults_are_not_taken_for_a_full_disk(tmp_path: Path) -> None:
    with pytest.raises(PermissionError), building(tmp_path):
        raise PermissionError(13, "Permission denied")
