"""A data set's own scorer in a process of its own: what a policy writes may hang it or end it.

Several scorers of reasoning-gym evaluate the answer as an expression, so that ``9**9**9**9`` takes
forever, and worse can be written. The process has no more than its time, its memory and no file.
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
"""Characters of an answer that are scored; a longer one is cut."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a scorer says of an answer.

    Attributes:
        reward: from 0 to 1.
        fault: why it could not be scored; empty if it was.
    """

    reward: float
    fault: str = ""


class Scorer:
    """Scores the answers to the questions of one data set; may be called from several threads.

    Args:
        dataset: its name.
        arguments: its own settings.
        seconds: time to score one answer, after which it is worth nothing.
    """

    def __init__(
        self, dataset: str, arguments: Mapping[str, JsonValue], seconds: float = SECONDS
    ) -> None:
        self._given = dataset, dict(arguments), seconds
        self._lock = threading.Lock()
        self._pipe: Connection[tuple[str, Entry], bytes] | None = None
        self._end: weakref.finalize[[subprocess.Popen[bytes]], Scorer] | None = None

    def __reduce__(self) -> tuple[type[Scorer], tuple[str, dict[str, JsonValue], float]]:
        """Another process starts its own."""
        return Scorer, self._given

    def __call__(self, answer: str, entry: Entry) -> Found:
        """What ``answer`` to the question of ``entry`` is worth.

        Raises:
            EvopromptError: the process does not start.
        """
        with self._lock:
            pipe = self._pipe or self._start()
            seconds = self._given[2]
            try:
                pipe.send((answer[:LONGEST], entry))
                if pipe.poll(seconds):
                    return Found(**json.loads(pipe.recv_bytes()))
                fault = f"it takes longer than {seconds:g} s to check"
            except (EOFError, OSError):
                fault = "checking it ended the process that does so"
            self._stop()
            return Found(0.0, fault)

    def _start(self) -> Connection[tuple[str, Entry], bytes]:
        dataset, arguments, _ = self._given
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
            "required: a process of its own; what it printed says why"
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
