"""Process that scores: receives a data set by name, then answers, until the pipe is closed."""

from __future__ import annotations

import json
import math
import os
import resource
import sys
import warnings
from multiprocessing.connection import Connection

from reasoning_gym.dataset import ProceduralDataset

from evoprompt.support.text import format_error
from evoprompt_gym.datasets import Entry, make

MEMORY = 4 << 30
"""Bytes of address space that it may use."""


def score_answer(dataset: ProceduralDataset, answer: str, entry: Entry) -> dict[str, object]:
    """Return the result of the data set's scorer, in the form of ``scoring.ScorerResult``."""
    try:
        reward = float(dataset.score_answer(answer, entry))
    except Exception as error:  # not every scorer expects every answer
        return {"reward": 0.0, "fault": f"its scorer fails on it ({format_error(error)})"}
    if not 0 <= reward <= 1 or math.isnan(reward):
        return {"reward": 0.0, "fault": f"its scorer gives it {reward}, which is not from 0 to 1"}
    return {"reward": reward}


def main(pipe: Connection[bytes, tuple[str, Entry]]) -> None:
    """Score the answers that arrive."""
    warnings.simplefilter("ignore")  # of expressions that were written by a policy
    name, arguments = pipe.recv()
    dataset = make(name, arguments, seed=0, size=1)
    pipe.send_bytes(b"ready")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    while True:
        try:
            answer, entry = pipe.recv()
        except EOFError:  # the parent process has ended
            return
        pipe.send_bytes(json.dumps(score_answer(dataset, answer, entry)).encode())


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])))
