"""Asks a proposer that thinks ahead as late as its answer allows; training never waits for it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from statistics import median_low

from pydantic import BaseModel, JsonValue, NonNegativeInt

from evoprompt.config import EngineConfig
from evoprompt.eventlog import EventLog
from evoprompt.events import Notice
from evoprompt.faults import naming
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.types import Candidate

Ask = Callable[[], ProposalRequest]

_REMEMBERED = 3  # latencies; one that was odd does not count
_FIRST = 1  # steps that an answer is taken to need, before one was seen


class Unfilled(BaseModel):
    """A generation that goes on at a later step, since it has filled not all of its places yet.

    Attributes:
        rounds: that it had.
        tried: candidates that were tried in them.
        admitted: candidates that it brought.
        places: that are left.
    """

    rounds: NonNegativeInt
    tried: NonNegativeInt
    admitted: NonNegativeInt
    places: NonNegativeInt


class _State(BaseModel):
    """What a resumed run has to know.

    Attributes:
        latencies: steps that the last answers took, the latest last.
        evolved: first step of the last generation, 0 before the first.
        unfilled: what is left of it, None if nothing is.
        asked: step of the request that is open or answered, None if there is none.
        answered: whether its answer was seen.
        again: whether it replaced one about a parent that died.
        parents: whom it was to improve.
        late: whether evolution is due and waits for the proposer.
        stale: whether an answer that comes now is to a request that was given up.
    """

    latencies: list[NonNegativeInt] = []
    evolved: NonNegativeInt = 0
    unfilled: Unfilled | None = None
    asked: NonNegativeInt | None = None
    answered: bool = False
    again: bool = False
    parents: list[Candidate] = []
    late: bool = False
    stale: bool = False


class ProposalScheduler:
    """Knows when to ask the proposer, and whether it has come to an end.

    The later it is asked, the better it is known whom to improve. So it is asked as many steps
    before the evolution as its last answers took (the median of three, and 1 before the first), but
    never in the first half of a period: the candidates of the last generation are to be measured.
    If the parent is pruned while it thinks, it is asked again, once a generation; not for a further
    round of one, for which there is no time.

    Args:
        proposer: if it does not anticipate, there is nothing to do.
        config: the engine's numbers.
        log: takes the events.
    """

    def __init__(self, proposer: Proposer, config: EngineConfig, log: EventLog) -> None:
        self._proposer = proposer if proposer.anticipates else None
        self._config = config
        self._log = log
        self._state = _State()
        self._resumed = False

    @property
    def late(self) -> bool:
        """Whether evolution is due and waits for the proposer."""
        return self._state.late

    @property
    def parents(self) -> Sequence[Candidate]:
        """Whom the proposer was last asked to improve, best first; they may have died since."""
        return self._state.parents

    @property
    def unfilled(self) -> Unfilled | None:
        """What is left of a generation that goes on; None if nothing is."""
        return self._state.unfilled

    def is_due(self, step: int) -> bool:
        """Whether to evolve after ``step``.

        It is not in the first half of a period after a generation that came late: its candidates
        would have been measured for nothing.
        """
        return self._config.evolves_at(step) and not self._is_early(step, self._state.evolved)

    def watch(self, step: int, due: bool, ask: Ask, living: Collection[str]) -> None:
        """Asks the proposer if it is time to, after engine step ``step``.

        Args:
            step: the engine step.
            due: whether evolution is due now.
            ask: makes the request.
            living: ids of the candidates that are alive.
        """
        if self._proposer is None:
            return
        self.look(step)
        if self._state.asked is None:
            if self._has_nothing and (due or self._is_time(step)):
                self._start(step, ask)
        elif self._state.parents and not self._state.again and self._state.unfilled is None:
            parent = self._state.parents[0].id
            if parent not in living:
                self._state.again = True
                self._start(step, ask)
                message = f"{parent} has died since the proposer was asked to improve it"
                now = ", ".join(one.id for one in self._state.parents)
                self._log.append(Notice(step, f"{message}; it is asked again, about {now}"))

    def is_ready(self, step: int, ask: Ask) -> bool:
        """Whether the proposer can answer at once; if not, asks it and notes that it is late."""
        if self._proposer is None:
            return True
        self.look(step)
        if self._state.asked is None and self._has_nothing:
            self._start(step, ask)
            self.look(step)
        if self._proposer.ready:
            return True
        if not self._state.late and self._state.unfilled is None:
            self._state.late = True
            message = f"evolution is due at step {step} but the proposer is still thinking"
            self._log.append(Notice(step, f"{message}; training goes on"))
        return False

    def look(self, step: int) -> None:
        """Notes how long the answer took if it has come, after engine step ``step``."""
        state = self._state
        if self._proposer is None or state.asked is None or state.answered:
            self._resumed = False
            return
        if self._proposer.ready:
            state.answered = True
            state.latencies = [*state.latencies, max(step - state.asked, 0)][-_REMEMBERED:]
        elif self._resumed:  # the thought was lost
            state.asked = None
        self._resumed = False

    def go_on(self, step: int, unfilled: Unfilled, ask: Ask) -> bool:
        """Asks for another round of a generation, after engine step ``step``.

        Returns:
            Whether an answer may be expected in the first half of a period; else it is not asked.
        """
        first = step if self._state.unfilled is None else self._state.evolved
        if not self._is_early(step + self._latency, first):
            return False
        self._state = _State(latencies=self._state.latencies, evolved=first, unfilled=unfilled)
        self._start(step, ask)
        return True

    def given_up(self, step: int) -> Unfilled | None:
        """What is left of a generation that ends now, since no answer has come in time."""
        state = self._state
        if self._proposer is None or state.unfilled is None or self._proposer.ready:
            return None
        if self._is_early(step, state.evolved):
            return None
        self.begin_anew(step)
        self._state.stale = True
        return state.unfilled

    def begin_anew(self, step: int) -> None:
        """Waits for the next generation, after one that ended at engine step ``step``."""
        state = self._state
        evolved = step if state.unfilled is None else state.evolved
        self._state = _State(latencies=state.latencies, evolved=evolved)

    @property
    def _has_nothing(self) -> bool:
        """Whether the proposer has no answer that counts."""
        return self._proposer is not None and (self._state.stale or not self._proposer.ready)

    @property
    def _latency(self) -> int:
        latencies = self._state.latencies
        return median_low(latencies) if latencies else _FIRST

    def _is_early(self, step: int, first: int) -> bool:
        """Whether ``step`` is in the first half of a period that began at step ``first``."""
        return step - first < self._config.evolve_every // 2

    def _is_time(self, step: int) -> bool:
        due = self._config.next_evolution(step)
        while due is not None and not self.is_due(due):
            due = self._config.next_evolution(due)
        if due is None:
            return False
        return step >= due - self._latency and not self._is_early(step, self._state.evolved)

    def _start(self, step: int, ask: Ask) -> None:
        if self._proposer is None:
            return
        request = ask()
        self._state.asked, self._state.answered, self._state.stale = step, False, False
        self._state.parents = [parent.candidate for parent in request.parents]
        with naming("proposer", self._proposer):
            self._proposer.anticipate(request)

    def state_dict(self) -> dict[str, JsonValue]:
        """What was learnt and asked. A thought that is under way is lost, and begun again."""
        return self._state.model_dump(mode="json")

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        self._state = _State.model_validate(dict(state))
        self._resumed = True
