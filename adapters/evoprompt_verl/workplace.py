"""Where a process of a run works, when the run has joined a Ray cluster.

Ray calls :func:`enter` in every process of the job before anything else, so this imports nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

DIRECTORY = "EVOPROMPT_WORKING_DIRECTORY"
"""Environment variable with the working directory of the command that started the run."""


def enter() -> None:
    """Change to the command's working directory, if this machine has it."""
    directory = os.environ.get(DIRECTORY)
    if directory and Path(directory).is_dir():
        os.chdir(directory)


def misplaced() -> str:
    """Return a message if this machine lacks the command's working directory; else empty."""
    directory = os.environ.get(DIRECTORY)
    if not directory or Path(directory).is_dir():
        return ""
    return (
        f"the command was started in {directory}, which the machine of the task runner does not "
        f"have: relative paths begin at {Path.cwd()} there; start it from a directory that all "
        "machines see, or give absolute paths"
    )
