"""Data set's own scorer in a separate process, which an answer of a policy may hang or end.

Several scorers of reasoning-gym evaluate the answer as an expression, so that ``9**9**9**9`` takes
forever, and an answer may do worse. The process has limits of time and memory, and no file.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from pydantic import JsonValue

from evoprompt.support.errors import EvopromptError
from evoprompt_gym.datasets import Entry

SECONDS = 5.0
"""Time to score one answer."""
STARTING = 300.0
"""Time for the process to start, in seconds."""
LONGEST = 20_000
"""Most characters of an answer that are scored; a longer answer is cut."""


@dataclass(frozen=True, slots=True)
class ScorerResult:
    """Result of a scorer for an answer.

    Attributes:
        reward: from 0 to 1.
        fault: reason why it could not be scored; empty if it was.
    """

    reward: float
    fault: str = ""


class Scorer:
    """Scorer of answers to the questions of one data set; several threads may call it.

    Args:
        dataset: its name.
        arguments: its own settings.
        seconds: time to score one answer, after which its reward is 0.
    """

    def __init__(
        self, dataset: str, arguments: Mapping[str, JsonValue], seconds: float = SECONDS
    ) -> None:
        self._arguments = dataset, dict(arguments), seconds
        self._lock = threading.Lock()
        self._pipe: Connection[tuple[str, Entry], bytes] | None = None
        self._end: weakref.finalize[[subprocess.Popen[bytes]], Scorer] | None = None

    def __reduce__(self) -> tuple[type[Scorer], tuple[str, dict[str, JsonValue], float]]:
        """Return the arguments with which another process starts its own scorer."""
        return Scorer, self._arguments

    def __call__(self, answer: str, entry: Entry) -> ScorerResult:
        """Return the score of ``answer`` to the question of ``entry``.

        Raises:
            EvopromptError: the process does not start.
        """
        with self._lock:
            pipe = self._pipe or self._start()
            seconds = self._arguments[2]
            try:
                pipe.send((answer[:LONGEST], entry))
                if pipe.poll(seconds):
                    return ScorerResult(**json.loads(pipe.recv_bytes()))
                fault = f"it takes longer than {seconds:g} s to check"
            except (EOFError, OSError):
                fault = "checking it ended the process that does so"
            self._stop()
            return ScorerResult(0.0, fault)

    def _start(self) -> Connection[tuple[str, Entry], bytes]:
        dataset, arguments, _ = self._arguments
        ours, theirs = Pipe()
        process = subprocess.Popen(
            [sys.executable, "-m", "evoprompt_gym.worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdout=subprocess.DEVNULL,
        )
        theirs.close()
        self._pipe, self._end = ours, weakref.finalize(self, _kill, process)
        try:
            ours.send((dataset, arguments))
            if ours.poll(STARTING) and ours.recv_bytes() == b"ready":
                return ours
        except (EOFError, OSError):
            pass
        self._stop()
        raise EvopromptError(
            f"the scorer of dataset {dataset!r} did not start: python -m evoprompt_gym.worker; "
            "required: a process of its own; its output has the reason"
        )

    def _stop(self) -> None:
        if self._end is not None:
            self._end()
        if self._pipe is not None:
            self._pipe.close()
        self._pipe = None


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
