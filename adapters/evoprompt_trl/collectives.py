"""Rank 0 decides, every process follows: the two collectives the adapter needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar, cast

from accelerate.utils import broadcast_object_list, gather_object

if TYPE_CHECKING:
    from accelerate import Accelerator

T = TypeVar("T")


class Collectives:
    """Moves Python objects between the processes of one accelerator.

    Every process must call the same methods in the same order.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator

    @property
    def is_leader(self) -> bool:
        """Return whether this process is rank 0, the owner of the engine."""
        return bool(self._accelerator.is_main_process)

    @property
    def rank(self) -> int:
        """Index of this process, in ``[0, world)``."""
        return int(self._accelerator.process_index)

    @property
    def world(self) -> int:
        """Number of processes."""
        return int(self._accelerator.num_processes)

    def wait(self) -> None:
        """Wait until every process has arrived."""
        self._accelerator.wait_for_everyone()

    def from_leader(self, value: T) -> T:
        """Rank 0's ``value``, on every process."""
        if self.world == 1:
            return value
        return cast(T, broadcast_object_list([value], from_process=0)[0])

    def gathered(self, values: Sequence[T]) -> list[T]:
        """Return the values of all processes in the order of their ranks, on every process."""
        if self.world == 1:
            return list(values)
        return cast(list[T], gather_object(list(values)))
