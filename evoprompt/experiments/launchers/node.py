"""Code of a trial's process; it shares only a folder with the launcher.

::

    RUN/trials/ARM/seed-N/launched/NAME/    of one submission; removed when it is no longer awaited
      events.jsonl      events of the trial, for the display
      stop              exists if the trial has to save and end after its step
"""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from multiprocessing import parent_process
from pathlib import Path

from evoprompt.experiments.check import check
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.trial import End, TrialFailure, attempt
from evoprompt.lm.budget import SpendTracker
from evoprompt.log.eventlog import to_line
from evoprompt.log.events import Event
from evoprompt.support.errors import InputError
from evoprompt.support.text import format_error

_FOLDER_TIMEOUT = 60.0
"""Seconds within which a machine sees a folder that another one has made: NFS's default."""
_STEP_TIMEOUT = 3600.0
"""Seconds that another process of the same trial has to save and end, or to count as gone."""


@dataclass(frozen=True, slots=True)
class Errand:
    """Trial in the form that is sent to another process.

    Attributes:
        directory: the run, at an absolute path.
        trial: one of its trials, to be continued from its newest checkpoint if it has one.
        folder: shared with the launcher, its own for every submission.
        home: the working directory, for relative paths in the settings, which all machines share;
            None for a process of the same machine.
    """

    directory: RunDirectory
    trial: TrialId
    folder: Path
    home: Path | None

    def carry_out(self) -> End | None:
        """Run the trial and return its end; None if it was stopped and can be resumed."""
        directory, trial, here = self.directory, self.trial, socket.gethostname()
        files = directory.trial(trial)
        try:
            if self.home is not None:
                _enter(self.home, directory.root, self.folder)
            if self._stopping():
                return None
            with (
                files.output.open("a", encoding="utf-8") as file,
                redirect_stdout(file),
                redirect_stderr(file),
            ):
                print(f"on {here}, process {os.getpid()}", flush=True)
                if self.home is not None:
                    config = directory.config.narrowed([trial.arm], trial.seed)
                    check(config, SpendTracker(directory.spending), directory.root)
                return attempt(directory, trial, self._append_event, self._stopping, _STEP_TIMEOUT)
        except InputError as error:
            return TrialFailure(f"on {here}: {error}", bad_input=True)
        except OSError as error:
            return TrialFailure(f"on {here}: {format_error(error)}")

    def _stopping(self) -> bool:
        """Return whether the launcher requests a stop, withdrew the submission, or has ended."""
        parent = parent_process()
        if parent is not None and not parent.is_alive():
            return True
        return (self.folder / "stop").exists() or not self.folder.exists()

    def _append_event(self, event: Event) -> None:
        line = to_line(event) + "\n"
        with (
            _APPEND_LOCK,
            suppress(OSError),  # only for the display
            (self.folder / "events.jsonl").open("a", encoding="utf-8") as file,
        ):
            file.write(line)


def _enter(home: Path, *shared: Path) -> None:
    """Make ``home`` the working directory, after waiting until it and ``shared`` exist here.

    Raises:
        InputError: a folder does not appear on this machine.
    """
    end = time.monotonic() + _FOLDER_TIMEOUT
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


_APPEND_LOCK = threading.Lock()  # events for the display may come from another thread
