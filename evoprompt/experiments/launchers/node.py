"""What runs in the process that a trial was sent to; all it shares with the launcher is a folder.

::

    RUN/trials/ARM/seed-N/launched/NAME/    of one submission; removed when nobody waits for it
      events.jsonl      what the trial says, for the display
      stop              there when it is to save and end after its step
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from multiprocessing import parent_process
from pathlib import Path
from uuid import uuid4

from evoprompt.errors import InputError
from evoprompt.eventlog import to_line
from evoprompt.events import Event
from evoprompt.experiments.check import check
from evoprompt.experiments.eventfile import event_of
from evoprompt.experiments.launchers.base import Done, Job, Lost, Message, Work
from evoprompt.experiments.trial import End, Failure, attempt
from evoprompt.lm.budget import SpendTracker
from evoprompt.text import format_error

_LATE = 60.0
"""Seconds within which a machine sees a folder that another one has made: NFS's default."""
_LONG_STEP = 3600.0
"""Seconds that another process of the same trial has to save and end, or to count as gone."""


@dataclass(frozen=True, slots=True)
class Errand:
    """A trial as it is sent to another process.

    Attributes:
        work: what to carry out.
        folder: shared with the launcher, its own for every submission.
        home: the working directory, for relative paths in the settings, which all machines share;
            None for a process of the same machine.
    """

    work: Work
    folder: Path
    home: Path | None

    def carry_out(self) -> End | None:
        """The end of the trial; None when it was stopped, to be resumed."""
        work, here = self.work, socket.gethostname()
        files = work.directory.trial(work.trial)
        try:
            if self.home is not None:
                _enter(self.home, work.directory.root, self.folder)
            if self._stopping():
                return None
            with (
                files.output.open("a", encoding="utf-8") as file,
                redirect_stdout(file),
                redirect_stderr(file),
            ):
                print(f"on {here}, process {os.getpid()}", flush=True)
                if self.home is not None:
                    config = work.directory.config.narrowed([work.trial.arm], work.trial.seed)
                    check(config, SpendTracker(work.directory.spending), work.directory.root)
                return attempt(work.directory, work.trial, self._tell, self._stopping, _LONG_STEP)
        except InputError as error:
            return Failure(f"on {here}: {error}", bad_input=True)
        except OSError as error:
            return Failure(f"on {here}: {format_error(error)}")

    def _stopping(self) -> bool:
        """Whether the launcher asks to stop, has taken the submission back, or has died."""
        parent = parent_process()
        if parent is not None and not parent.is_alive():
            return True
        return (self.folder / "stop").exists() or not self.folder.exists()

    def _tell(self, event: Event) -> None:
        line = to_line(event) + "\n"
        with (
            _ONE_AT_A_TIME,
            suppress(OSError),  # only for the display
            (self.folder / "events.jsonl").open("a", encoding="utf-8") as file,
        ):
            file.write(line)


def _enter(home: Path, *shared: Path) -> None:
    """Makes ``home`` the working directory, when this machine sees it and ``shared``.

    Raises:
        InputError: it has not.
    """
    end = time.monotonic() + _LATE
    for folder in (home, *shared):
        while not folder.is_dir():
            if time.monotonic() > end:
                raise InputError(
                    f"this machine has no folder {folder}; required: the working directory and the "
                    "output of the run on a file system that all machines share, and a command "
                    "that waits for this trial; start it there, or continue it with --resume"
                )
            time.sleep(1.0)
    os.chdir(home)


_ONE_AT_A_TIME = threading.Lock()  # what is only shown may come from another thread


class SubmittedJob(Job):
    """A trial in another process, seen through its folder and what is known of the process.

    Earlier submissions of the same trial are taken back: should their processes be alive, they save
    and end after their step, or do not begin.

    Args:
        work: what to carry out.
        home: see :class:`Errand`.
    """

    def __init__(self, work: Work, home: Path | None = None) -> None:
        root = work.directory.trial(work.trial).launched
        shutil.rmtree(root, ignore_errors=True)
        self._folder = root / uuid4().hex[:8]
        self._folder.mkdir(parents=True)
        self._events, self._read = self._folder / "events.jsonl", 0
        self.errand = Errand(work, self._folder, home)

    def poll(self) -> Sequence[Message]:
        """What the trial has written into the folder, and its end."""
        end = self._end()
        said = self._news()
        if end is None:
            return said
        shutil.rmtree(self._folder, ignore_errors=True)
        with suppress(OSError):  # others are in use
            self._folder.parent.rmdir()
        return [*said, end]

    def stop(self) -> None:
        """Has it stop after its step, or not begin."""
        (self._folder / "stop").touch()
        if not self._events.exists():
            self._cancel(force=False)

    def kill(self) -> None:
        """Ends it at once."""
        self._cancel(force=True)

    def _news(self) -> Sequence[Event]:
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
                found.append(event_of(line))
        return found

    @abstractmethod
    def _end(self) -> Done | Lost | None:
        """How it ended; None as long as it waits or runs."""

    @abstractmethod
    def _cancel(self, force: bool) -> None:
        """Takes it back; with ``force`` also one that runs."""
