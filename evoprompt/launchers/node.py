"""What runs on the machine that a trial was sent to; all it shares with the launcher is a folder.

::

    RUN/launched/N/
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
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from evoprompt.errors import InputError
from evoprompt.eventlog import to_line
from evoprompt.events import Event
from evoprompt.launchers.base import Message, Work
from evoprompt.lm.budget import SpendTracker
from evoprompt.plugins import installed_sources
from evoprompt.runs.check import check
from evoprompt.runs.eventfile import event_of
from evoprompt.runs.lease import LEASE
from evoprompt.runs.trial import End, Failure, attempt

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
            self._require_home(here)
        except InputError as error:
            return Failure(str(error), bad_input=True)
        work = self.work
        log = work.directory.trial(work.trial).output
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as file, redirect_stdout(file), redirect_stderr(file):
            print(f"on {here}, process {os.getpid()}", flush=True)
            config = work.directory.config.narrowed([work.trial.arm], work.trial.seed)
            try:
                check(config, SpendTracker(work.directory.spending), work.directory.root)
            except InputError as error:
                return Failure(f"on {here}: {error}", bad_input=True)
            # A process of this trial that was lost, but is alive, has this long to find out.
            return attempt(
                work.directory, work.trial, work.resume, self._tell, self._stopping, 2 * LEASE
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

    def _require_home(self, here: str) -> None:
        for folder in (self.home, self.work.directory.root):
            if not folder.is_dir():
                raise InputError(
                    f"{here} has no folder {folder}; required: the working directory and the "
                    "output of the run on a file system that all machines share; start it there"
                )
        os.chdir(self.home)

    def _stopping(self) -> bool:
        return (self.folder / "stop").exists()

    def _tell(self, event: Event) -> None:
        line = to_line(event.to_json()) + "\n"
        with (
            _ONE_AT_A_TIME,
            suppress(OSError),  # only for the display
            (self.folder / "events.jsonl").open("a", encoding="utf-8") as file,
        ):
            file.write(line)


_ONE_AT_A_TIME = threading.Lock()  # what is only shown may come from another thread


class SharedFolder:
    """The launcher's side of the folder of one submission."""

    def __init__(self, root: Path) -> None:
        number = 0
        while True:
            self.path = root / "launched" / str(number)
            try:
                self.path.mkdir(parents=True)
                break
            except FileExistsError:
                number += 1
        self._events = self.path / "events.jsonl"
        self._read = 0

    @property
    def begun(self) -> bool:
        """Whether the trial has said anything."""
        return self._events.exists()

    def ask_to_stop(self) -> None:
        """Has the trial save and end after its step."""
        (self.path / "stop").touch()

    def last(self, message: Message) -> Sequence[Message]:
        """What the trial has said since the last call, then ``message``; the folder is deleted."""
        found = [*self.news(), message]
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):  # others are in use
            self.path.parent.rmdir()
        return found

    def news(self) -> Sequence[Message]:
        """What the trial has said since the last call."""
        try:
            with self._events.open("rb") as file:
                file.seek(self._read)
                lines = file.read().splitlines(keepends=True)
        except OSError:
            return ()
        found: list[Message] = []
        for line in lines:
            if not line.endswith(b"\n"):
                break  # the rest is being written
            self._read += len(line)
            with suppress(ValueError):
                found.append(event_of(json.loads(line)))
        return found
