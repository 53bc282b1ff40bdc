"""The replay buffer: trajectories worth learning from again, failures of late steps first."""

from __future__ import annotations

import math
import random
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from evoprompt.types import Question, Trajectory


class ReplayBuffer:
    """A bounded memory of trajectories and of the questions they answered (paper §3.2).

    Args:
        capacity: trajectories kept in each of the two shelves (failures, successes) and
            questions kept, at least 1; the oldest make room.
        failure_below: a reward under this is a failure.
    """

    def __init__(self, capacity: int = 2048, failure_below: float = 0.5) -> None: ...
