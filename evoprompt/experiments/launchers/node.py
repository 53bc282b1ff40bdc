"""What runs on the machine that a trial was sent to; all it shares with the launcher is a folder.

::

    RUN/trials/ARM/seed-N/launched/NAME/    of one submission; removed when nobody waits for it
      job               its number, where it outlives the launcher
      begun             there when the trial was begun: by a cluster that starts jobs again, twice
      events.jsonl      what the trial says, for the display
      stop              there when it is to save and end after its step
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from uuid import uuid4

from evoprompt.errors import InputError
from evoprompt.eventlog import to_line
from evoprompt.events import Event, Notice
from evoprompt.experiments.check import check
from evoprompt.experiments.eventfile import event_of
from evoprompt.experiments.launchers.base import Done, Lost, Message, Work
from evoprompt.experiments.trial import End, Failure, attempt
from evoprompt.lm.budget import SpendTracker
from evoprompt.plugins import installed_sources
from evoprompt.storage import write_whole
from evoprompt.text import format_error

_LATE = 60.0
"""Seconds within which a machine sees a folder that another one has made: NFS's default."""
_LONG_STEP = 3600.0
"""Seconds that another process of the same trial has to save and end, or to count as gone."""
_LIBRARIES = ("torch", "transformers", "trl", "verl", "vllm", "accelerate", "peft")


def versions() -> dict[str, str]:
    """Versions of everything here that decides how a trial goes, by name."""
    found = {"Python": ".".join(platform.python_version_tuple()[:2])}
    found.update((source.distribution, source.version) for source in installed_sources())
    for name in _LIBRARIES:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


@dataclass(frozen=True, slots=True)
class Errand:
    """A trial as it is sent to another machine.

    Attributes:
        work: what to carry out.
        folder: shared with the launcher, its own for every submission.
        home: working directory of who started the run, for relative paths in its settings.
        versions: what is installed there.
    """

    work: Work
    folder: Path
    home: Path
    versions: Mapping[str, str]

    def carry_out(self) -> End | None:
        """The end of the trial; None when it was stopped, to be resumed."""
        here = socket.gethostname()
        try:
            self._require_alike(here)
            self._require_shared(here)
            again = self._begun_before()
        except InputError as error:
            return Failure(str(error), bad_input=True)
        except OSError as error:
            return Failure(f"on {here}: {format_error(error)}")
        if self._stopping():
            return None
        work = self.work
        files = work.directory.trial(work.trial)
        with (
            files.output.open("a", encoding="utf-8") as file,
            redirect_stdout(file),
            redirect_stderr(file),
        ):
            print(f"on {here}, process {os.getpid()}", flush=True)
            config = work.directory.config.narrowed([work.trial.arm], work.trial.seed)
            try:
                check(config, SpendTracker(work.directory.spending), work.directory.root)
            except InputError as error:
                return Failure(f"on {here}: {error}", bad_input=True)
            if again:
                self._tell(Notice(0, f"was started again by its cluster, on {here}"))
            resume = work.resume or again
            return attempt(
                work.directory, work.trial, resume, self._tell, self._stopping, _LONG_STEP
            )

    def _require_alike(self, here: str) -> None:
        mine = versions()
        differ = [
            f"{name} {mine.get(name, 'missing')} instead of {wanted}"
            for name, wanted in self.versions.items()
            if mine.get(name) != wanted
        ]
        if differ:
            raise InputError(
                f"{here} has {', '.join(differ)}; required: what is installed where the run was "
                "started; install the same there"
            )

    def _require_shared(self, here: str) -> None:
        for folder in (self.home, self.work.directory.root):
            if not folder.is_dir():
                raise InputError(
                    f"{here} has no folder {folder}; required: the working directory and the "
                    "output of the run on a file system that all machines share; start it there"
                )
        end = time.monotonic() + _LATE
        while not self.folder.is_dir():
            if time.monotonic() > end:
                raise InputError(
                    f"{here} has no folder {self.folder}; required: an output on a file system "
                    "that all machines share, and a command that waits for this trial; start it "
                    "there, or continue the run with --resume"
                )
            time.sleep(1.0)
        os.chdir(self.home)

    def _begun_before(self) -> bool:
        """Whether the cluster has started this job before, and lost it."""
        mark = self.folder / "begun"
        before = mark.exists()
        mark.touch()
        return before

    def _stopping(self) -> bool:
        """Whether the launcher asks to stop, or has taken the submission back."""
        return (self.folder / "stop").exists() or not self.folder.exists()

    def _tell(self, event: Event) -> None:
        line = to_line(event) + "\n"
        with (
            _ONE_AT_A_TIME,
            suppress(OSError),  # only for the display
            (self.folder / "events.jsonl").open("a", encoding="utf-8") as file,
        ):
            file.write(line)


_ONE_AT_A_TIME = threading.Lock()  # what is only shown may come from another thread


class SharedFolder:
    """The launcher's side of the folder of one submission.

    Args:
        path: the folder, which is there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._events = path / "events.jsonl"
        self._read = 0

    @classmethod
    def new(cls, work: Work) -> SharedFolder:
        """One for a new submission; earlier ones of the same trial are taken back.

        Their jobs, should they be alive, save and end after their step, or do not begin.
        """
        root = work.directory.trial(work.trial).launched
        shutil.rmtree(root, ignore_errors=True)
        path = root / uuid4().hex[:8]
        path.mkdir(parents=True)
        return cls(path)

    @classmethod
    def left_behind(cls, work: Work) -> Mapping[str, SharedFolder]:
        """Those of the same trial that another launcher has left, by the numbers of their jobs."""
        found: dict[str, SharedFolder] = {}
        for file in work.directory.trial(work.trial).launched.glob("*/job"):
            found[file.read_text(encoding="utf-8")] = cls(file.parent)
        return found

    def note(self, job: str) -> None:
        """Writes down the number of the job, which may outlive this process."""
        write_whole(self.path / "job", job)

    @property
    def begun(self) -> bool:
        """Whether the trial has said anything."""
        return self._events.exists()

    def failure(self, error: Path) -> str:
        """The last line of ``error``, written since the trial began here; empty without one."""
        try:
            if error.stat().st_mtime < (self.path / "begun").stat().st_mtime:
                return ""
            return error.read_text(encoding="utf-8").strip().splitlines()[-1]
        except (OSError, IndexError):
            return ""

    def ask_to_stop(self) -> None:
        """Has the trial save and end after its step."""
        (self.path / "stop").touch()

    def remove(self) -> None:
        """Deletes it, as nobody waits for the trial any more."""
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):  # others are in use
            self.path.parent.rmdir()

    def news(self) -> Sequence[Event]:
        """What the trial has said since the last call."""
        try:
            with self._events.open("rb") as file:
                file.seek(self._read)
                lines = file.read().splitlines(keepends=True)
        except OSError:
            return ()
        found: list[Event] = []
        for line in lines:
            if not line.endswith(b"\n"):
                break  # the rest is being written
            self._read += len(line)
            with suppress(ValueError):
                found.append(event_of(json.loads(line)))
        return found


class RemoteJob(ABC):
    """A trial that a cluster carries out, seen through its folder and what the cluster says.

    Args:
        folder: of the submission.
        first: what to say before the trial says something.
    """

    def __init__(self, folder: SharedFolder, *first: Event) -> None:
        self._folder, self._first = folder, first

    def poll(self) -> Sequence[Message]:
        """What the trial has written into the folder, and its end."""
        end = self._end()
        said, self._first = [*self._first, *self._folder.news()], ()
        if end is None:
            return said
        self._folder.remove()
        return [*said, end]

    def stop(self) -> None:
        """Has it stop after its step, or not begin."""
        self._folder.ask_to_stop()
        if not self._folder.begun:
            self._cancel(force=False)

    def kill(self) -> None:
        """Ends it at once."""
        self._cancel(force=True)

    @abstractmethod
    def _end(self) -> Done | Lost | None:
        """How it ended, as the cluster tells; None as long as it waits or runs."""

    @abstractmethod
    def _cancel(self, force: bool) -> None:
        """Takes it back; with ``force`` also one that runs."""
