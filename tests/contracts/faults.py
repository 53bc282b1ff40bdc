"""Kills a process at a chosen operation on its files, or takes its disk away, for tests.

``python faults.py MODULE`` imports a host module once and then forks: each line it reads names the
directory of a job, which ``MODULE.main`` does in a child; each line it writes is how that child
ended. Importing a trainer takes seconds, a fork none. What the first job imported on its way is
imported by the parent, too: later jobs are faster, and do not see a source that changes meanwhile.
"""

from __future__ import annotations

import builtins
import importlib
import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, cast

FAULT = "fault.json"
"""File in a job's directory: what is to go wrong, the fields of :class:`Fault`."""

WORK = "work"
"""Folder in a job's directory in which the host works; only there things go wrong."""

OUTPUT = "output.txt"
"""File in which a job leaves what it prints, its traceback included."""

OPERATIONS = "operations.txt"
"""File in which a job that was not killed leaves the names of its operations."""

MODULES = "modules.txt"
"""File in which it leaves the names of the modules that it used."""

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass(frozen=True)
class Fault:
    """What goes wrong in one job.

    Attributes:
        kill_at: number of the operation on files at which the process dies, from 0.
        largest_file: bytes; a file cannot grow beyond, as on a full disk.
    """

    kill_at: int | None = None
    largest_file: int | None = None


class Host(Protocol):
    """A module whose ``main`` does the job in a directory."""

    def main(self, directory: Path) -> None:
        """Does it."""


class Operations:
    """What this process does to the files under ``root``; it dies at the ``kill_at``-th of them.

    An operation is counted before it happens, the opening of a file also when it is there and still
    empty, and a file that a library writes by itself also when half of it is written.
    """

    def __init__(self, root: Path, kill_at: int | None) -> None:
        self.names: list[str] = []
        self._root = str(root)
        self._kill_at = kill_at

    def watch(self) -> None:
        """Counts from now on, for ever."""
        sys.addaudithook(self._audit)
        opened = self._opening(io.open)
        io.open = opened
        builtins.open = opened
        if "torch" in sys.modules:
            torch = sys.modules["torch"]
            torch.save = self._halving(torch.save, 1)  # type: ignore[attr-defined]
        if "transformers.modeling_utils" in sys.modules:
            modeling = cast(Any, sys.modules["transformers.modeling_utils"])
            modeling.safe_save_file = self._halving(modeling.safe_save_file, 1)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, str) and flags & _WRITING:
                self._happens("open", path)
        elif event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate"):
            if isinstance(arguments[0], int):
                return
            path, folder = os.fspath(arguments[0]), arguments[-1]
            if event != "os.truncate" and folder >= 0:
                path = str(Path(f"/proc/self/fd/{folder}").readlink() / path)
            if os.path.lexists(path) != (event == "os.mkdir"):  # or it does nothing
                self._happens(event.removeprefix("os."), path)

    def _opening(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def opening(file: Any, mode: str = "r", *others: Any, **more: Any) -> Any:
            found = original(file, mode, *others, **more)
            if set(mode) & set("wax+") and not isinstance(file, int):
                self._happens("opened", os.fspath(file))
            return found

        return opening

    def _halving(self, original: Callable[..., Any], position: int) -> Callable[..., Any]:
        def writing(*given: Any, **more: Any) -> Any:
            found = original(*given, **more)
            if len(given) > position and isinstance(given[position], str | Path):
                path = os.fspath(given[position])
                if len(self.names) == self._kill_at:
                    os.truncate(path, Path(path).stat().st_size // 2)
                self._happens("half", path)
            return found

        return writing

    def _happens(self, name: str, given: str | bytes) -> None:
        path = os.fsdecode(given)
        if not str(Path(path).absolute()).startswith(self._root):
            return
        if len(self.names) == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.names.append(f"{name} {os.path.relpath(path, self._root)}")


class Forks:
    """A process that has imported a host and does each job in a fork of itself.

    Args:
        module: of the host, importable from ``paths``.
        paths: folders before those of PYTHONPATH and the installed packages.
    """

    def __init__(self, module: str, *paths: Path) -> None:
        folders = (Path(__file__).parent, *paths)
        self._server = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__, module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ
            | {
                "PYTHONPATH": os.pathsep.join(
                    filter(None, [*map(str, folders), os.environ.get("PYTHONPATH")])
                ),
                "CUDA_VISIBLE_DEVICES": "",
            },
        )

    def run(self, directory: Path, fault: Fault | None = None) -> int:
        """The exit code of the job in ``directory``, negative for a signal."""
        (directory / FAULT).write_text(json.dumps(asdict(fault or Fault())))
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(f"{directory}\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())

    def close(self) -> None:
        """Ends it."""
        self._server.kill()
        self._server.communicate()


class SmallDisk:
    """A file system in memory that can be filled up.

    Args:
        folder: where to mount it.
        size: bytes.
        mount: False does as a machine does where nothing can be mounted.

    Attributes:
        mounted: whether this machine let us; where not, a limit on the size of files stands in.
    """

    def __init__(self, folder: Path, size: int, mount: bool = True) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        self.mounted = (
            mount
            and shutil.which("mount") is not None
            and subprocess.run(command, capture_output=True, check=False).returncode == 0
        )

    def fill(self, free: int) -> None:
        """Leaves ``free`` bytes, in whole pages."""
        self.empty()
        found = os.statvfs(self._folder)
        with (self._folder / "ballast").open("wb") as file:
            file.write(b"x" * max(found.f_bavail * found.f_bsize - free, 0))

    def empty(self) -> None:
        """Gives back what was taken."""
        (self._folder / "ballast").unlink(missing_ok=True)

    def close(self) -> None:
        """Unmounts it."""
        if self.mounted:
            subprocess.run(["umount", str(self._folder)], check=True)


def _serve(host: Host) -> None:
    answers, imported = os.dup(1), False
    for line in sys.stdin:
        directory = Path(line.rstrip("\n"))
        child = os.fork()
        if not child:
            _do(host, directory)
        _, status = os.waitpid(child, 0)
        if not imported and (directory / MODULES).exists():
            imported = True
            for name in (directory / MODULES).read_text().splitlines():
                with suppress(Exception):  # some are made, not imported
                    importlib.import_module(name)
        os.write(answers, f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _do(host: Host, directory: Path) -> None:
    """Does one job in this process and ends it."""
    with (directory / OUTPUT).open("ab", buffering=0) as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    fault = Fault(**json.loads((directory / FAULT).read_text()))
    watched = Operations(directory / WORK, fault.kill_at)
    if fault.largest_file is not None:
        _limit_files(fault.largest_file)
    try:
        watched.watch()
        host.main(directory)
        names = "\n".join(watched.names)
        (directory / OPERATIONS).write_text(names)
        (directory / MODULES).write_text("\n".join(sys.modules))
    except BaseException:
        _limit_files(resource.RLIM_INFINITY)
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def _limit_files(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


if __name__ == "__main__":
    _serve(cast(Host, importlib.import_module(sys.argv[1])))
