"""Asks the verifier about the candidates on probation, if it is one that admits so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from evoprompt.engine.checks import sound_conclusion
from evoprompt.engine.seats import Seat
from evoprompt.roles import SupportsProbation, Verifier
from evoprompt.types import Candidate, Trajectory, Verification

Found = TypeVar("Found")


class Probation:
    """What is known of a probation; nobody is ever on one under other verifiers.

    Args:
        verifier: who admits, and has to remember.
    """

    def __init__(self, verifier: Seat[Verifier]) -> None:
        self._verifier = verifier

    @property
    def ids(self) -> frozenset[str]:
        """Ids of the candidates that are not decided on yet."""
        return self._ask(lambda held: frozenset(held.on_probation()), frozenset())

    @property
    def lacking(self) -> Mapping[str, int]:
        """How many groups candidates on probation and their parent still need, by id."""
        none: Mapping[str, int] = {}
        return self._ask(lambda held: held.lacking(), none)

    def begin(self, admitted: Sequence[Candidate], parent: Candidate) -> bool:
        """Starts the probation of ``admitted`` beside ``parent``; whether there is one."""

        def start(held: SupportsProbation) -> bool:
            held.begin(admitted, parent)
            return True

        return self._ask(start, False)

    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Lets the verifier see what training told of the living."""
        self._ask(lambda held: held.observe(step, trajectories), None)

    def conclude(self, final: bool) -> Verification | None:
        """What became of those on probation; None while it goes on, or if nobody is."""

        def judge(held: SupportsProbation) -> Verification | None:
            tried = tuple(held.on_probation())
            return sound_conclusion(held.conclude(final), tried, final) if tried else None

        return self._ask(judge, None)

    def _ask(self, call: Callable[[SupportsProbation], Found], otherwise: Found) -> Found:
        return self._verifier.use(
            lambda held: call(held) if isinstance(held, SupportsProbation) else otherwise
        )
