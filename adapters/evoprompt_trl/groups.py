"""Which row of a generation batch belongs to which assignment. Pure arithmetic, no TRL.

Rows are numbered over all processes: row ``i`` of process ``r`` with ``b`` rows is ``r * b + i``.
TRL takes baselines over consecutive blocks of ``num_generations`` of these global rows, and only
the *global* batch is a multiple of it: a block may begin on one process and end on the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from evoprompt.engine import Engine

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Layout:
    """Division of the rows of one question among assignments and baselines.

    Attributes:
        question: rows per question, the trainer's ``num_generations`` (G).
        assignment: rows per assignment: G over the number of candidates per question.
        baseline: rows that share a baseline: those of an assignment (grouping by candidate), or of
            a question (grouping by question).
    """

    question: int
    assignment: int
    baseline: int

    @classmethod
    def of(cls, generations: int, engine: Engine) -> Layout:
        """Return the layout for a trainer with ``generations`` rollouts per question.

        Args:
            generations: the trainer's ``num_generations``.
            engine: engine that sets the number of candidates.

        Raises:
            InputError: the rollouts cannot be divided so that every baseline compares at least
                two.
        """
        rollouts = engine.divide_rollouts(generations, "num_generations")
        baseline = rollouts if engine.grouping == "candidate" else generations
        return cls(generations, rollouts, baseline)

    def assignments(self, process: int, rows: int) -> list[int]:
        """Return for each of the ``rows`` of ``process`` the index of its assignment in the batch.

        >>> Layout(question=4, assignment=4, baseline=4).assignments(process=1, rows=6)
        [1, 1, 2, 2, 2, 2]
        """
        return [row // self.assignment for row in range(process * rows, (process + 1) * rows)]

    def first_rows(self, process: int, rows: int) -> list[int]:
        """Return the local rows of ``process`` at which a question begins.

        >>> Layout(question=4, assignment=2, baseline=2).first_rows(process=1, rows=6)
        [2]
        """
        return [row for row in range(rows) if (process * rows + row) % self.question == 0]


def chunks_of_groups(rows: Sequence[T], max_rows: int, group: int) -> list[list[T]]:
    """Return the fewest chunks of at most ``max_rows`` rows, each of whole groups.

    The chunks are as equal in size as possible.

    >>> chunks_of_groups([*"aabbcc"], max_rows=5, group=2)
    [['a', 'a'], ['b', 'b', 'c', 'c']]
    """
    groups = -(-len(rows) // group)
    count = -(-groups // max(max_rows // group, 1))
    bounds = [index * groups // count * group for index in range(count + 1)] if count else []
    return [[*rows[start:end]] for start, end in pairwise(bounds)]


def share_of(chunk: Sequence[T], process: int, processes: int, group: int = 1) -> list[T]:
    """Return the rows of ``process``, as many as every other one has; the last group fills up.

    Collectives need equal shares. Over all processes there are at least two rows, because TRL 1.0
    takes the spread of their rewards.

    >>> [share_of("aabb", process, 3, group=2) for process in (0, 1, 2)]
    [['a', 'a'], ['b', 'b'], ['b', 'b']]

    >>> [share_of("abc", process, 2) for process in (0, 1)]
    [['a', 'b'], ['c', 'c']]
    """
    filled = [*chunk]
    while len(filled) < 2 or len(filled) % processes:
        filled += chunk[-group:]
    share = len(filled) // processes
    return filled[process * share : (process + 1) * share]
