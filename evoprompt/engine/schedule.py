"""Lets a proposer that thinks ahead start in time, so that training never waits for it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence

from pydantic import JsonValue, TypeAdapter

from evoprompt.config import EngineConfig
from evoprompt.engine.seats import describe
from evoprompt.engine.side_calls import SideCalls
from evoprompt.errors import EvopromptWarning
from evoprompt.events import Event, Notice
from evoprompt.interfaces import ProposalRequest, Proposer, SupportsPrefetch
from evoprompt.types import Trajectory

Ask = Callable[[], ProposalRequest]
_COUNT = TypeAdapter(int)
_FLAG = TypeAdapter(bool)


class ProposalScheduler:
    """Knows when to start the proposer, and whether it has come to an end.

    Args:
        proposer: if it does not anticipate, there is nothing to do.
        config: the engine's numbers.
        emit: takes the events.
        show: takes what is only for the moment.
        side_calls: calls what is optional about the proposer.

    Attributes:
        late: whether evolution is due and waits for the proposer.
    """

    def __init__(
        self,
        proposer: Proposer,
        config: EngineConfig,
        emit: Callable[[Event], None],
        show: Callable[[Event], None] = lambda event: None,
        side_calls: SideCalls | None = None,
    ) -> None:
        self._show = show
        self._asides = side_calls or SideCalls()
        self._begun: float | None = None  # when a thought began that nobody was told of
        self._proposer = proposer if isinstance(proposer, SupportsPrefetch) else None
        self._config = config
        self._emit = emit
        self._failures = 0
        self._started = False
        self.late = False

    def watch(
        self, step: int, trajectories: Sequence[Trajectory], ask: Ask, parents_known: bool = True
    ) -> None:
        """Starts the proposer when enough failures have come in since the last generation.

        Args:
            step: the engine step.
            trajectories: what it told.
            ask: makes the request.
            parents_known: whether it is decided whom to improve; else it is not started yet.
        """
        self._failures += sum(
            t.reward is not None and t.reward < self._config.failure_threshold for t in trajectories
        )
        self._announce_wait(step)
        enough = self._failures >= self._config.failures_per_request
        if enough and parents_known and self._config.evolves_after(step):
            self._start(ask)

    def is_ready(self, step: int, ask: Ask) -> bool:
        """Whether the proposer can answer at once; if not, starts it and notes that it is late."""
        if self._proposer is None or self._proposer.ready:
            return True
        self._start(ask)
        if not self.late:
            self.late = True
            message = f"evolution is due at step {step} but the proposer is still thinking"
            self._emit(Notice(step, f"{message}; training goes on"))
        return False

    def begin_anew(self) -> None:
        """Starts counting for the next generation."""
        self._failures = 0
        self._started = self.late = False
        self._begun = None

    def _start(self, ask: Ask) -> None:
        if self._proposer is not None and not self._started and not self._proposer.ready:
            self._started = True
            self._begun = time.monotonic()
            request, thinker = ask(), self._proposer
            self._asides.ask("anticipate", lambda: thinker.anticipate(request), None)

    def _announce_wait(self, step: int) -> None:
        """Says once that a thought takes longer than is patient."""
        if self._proposer is None or self._begun is None:
            return
        if self._proposer.ready:
            self._begun = None
        elif time.monotonic() - self._begun > self._config.patience:
            self._begun = None
            message = (
                f"the proposer {describe(self._proposer)} has been thinking in the background for "
                f"more than {self._config.patience:g} s at step {step}; training goes on without it"
            )
            self._show(Notice(step, message))
            warnings.warn(message, EvopromptWarning, stacklevel=2)

    def state_dict(self) -> dict[str, JsonValue]:
        """What was counted. A thought that is under way is lost, and begun again."""
        return {"failures": self._failures, "late": self.late}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        failures, late = _COUNT.validate_python(state["failures"]), state["late"]
        self.late = _FLAG.validate_python(late)
        self._failures = failures
        self._started = False
        self._begun = None
