"""What the proposer is asked, and when: as late as its answer allows; training never waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median_low

from pydantic import BaseModel, JsonValue, NonNegativeInt

from evoprompt.config import EngineConfig
from evoprompt.eventlog import EventLog
from evoprompt.events import Notice
from evoprompt.plugins import naming
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.screening import Screening
from evoprompt.selection import Selection
from evoprompt.types import Candidate, CandidateStats, Setting

_REMEMBERED = 3  # latencies; one that was odd does not count
_FIRST = 1  # steps that an answer is taken to need, before one was seen
_TO_CHOOSE_FROM = 8  # times as many failures as are shown are handed over for each parent


class _State(BaseModel):
    """What a resumed run has to know.

    Attributes:
        latencies: steps that the last answers took, the latest last.
        evolved: step of the last generation, 0 before the first.
        asked: step of the request that is open or answered, None if there is none.
        answered: whether its answer was seen.
        again: whether it replaced one about a parent that died.
        parents: whom it was to improve.
        late: whether evolution is due and waits for the proposer.
    """

    latencies: list[NonNegativeInt] = []
    evolved: NonNegativeInt = 0
    asked: NonNegativeInt | None = None
    answered: bool = False
    again: bool = False
    parents: list[Candidate] = []
    late: bool = False


@dataclass(eq=False)
class ProposalRequests:
    """Asks a proposer, which may think ahead.

    The later it is asked, the better it is known whom to improve. So it is asked as many steps
    before the evolution as its last answers took (the median of three, and 1 before the first), but
    never in the first half of a period: the candidates of the last generation are to be measured.
    If the parent is pruned while it thinks, it is asked again, once a generation.

    Attributes:
        config: the engine's numbers.
        selection: who lives, and who lived.
        screening: what its texts must keep, and why the last ones were refused.
        proposer: is asked.
        verified: whether its texts are rolled out before some are admitted.
        log: takes the events.
        setting: what stands around an instruction, as far as somebody told.
    """

    config: EngineConfig
    selection: Selection
    screening: Screening
    proposer: Proposer
    verified: bool
    log: EventLog
    setting: Setting = field(default_factory=Setting, init=False)
    _state: _State = field(default_factory=_State, init=False)
    _resumed: bool = field(default=False, init=False)

    # ---------------------------------------------------------------------------------- what

    def wanted(self, places: int, step: int) -> int:
        """How many proposals to ask for.

        Verification turns half of them away, so two for each place, and three where the proposer
        thinks ahead and there is one round: then no more is lost than by waiting for up to five
        rounds (simulated, 32 seeds; with two .05 of the leader's reward are: docs/selection.md).
        """
        if self.selection.challengers.mode == "in-training":
            return self.selection.challengers.at_once
        each = 1 if not (step and self.verified) else 3 if self.proposer.anticipates else 2
        return self.config.proposals_per_round or places * each

    def make(
        self,
        parents: Sequence[CandidateStats],
        living: Sequence[CandidateStats],
        places: int,
        step: int,
    ) -> ProposalRequest:
        """What the proposer is asked: to improve ``parents``, given their latest failures."""
        rng, replay = self.selection.rng, self.screening.replay
        ids = {parent.candidate.id for parent in parents}
        shown = self.config.failures_per_request
        count = self.wanted(places, step)
        found = replay.failures(shown * _TO_CHOOSE_FROM * len(ids), rng, ids)
        # From what has no text nothing is learnt: it only fills up where there is too little else.
        failures = [one for place, one in enumerate(found) if one.turns or place < shown]
        return ProposalRequest(
            count,
            parents,
            failures,
            self.selection.history,
            rng,
            step,
            self.screening.required,
            failures_per_request=shown,
            successes=replay.successes(failures),
            living=living,
            refusals=[*map(str, self.screening.findings)],
            max_tokens=self.screening.remaining_tokens(),
            setting=self.setting,
            sentences=self.selection.sentences(),
        )

    def report(self, step: int) -> None:
        """Logs what the proposer has to tell a person."""
        with naming("proposer", self.proposer):
            notices = self.proposer.notices()
        for message in notices:
            self.log.append(Notice(step, message))

    # ---------------------------------------------------------------------------------- when

    @property
    def late(self) -> bool:
        """Whether evolution is due and waits for the proposer."""
        return self._state.late

    @property
    def asked_about(self) -> Sequence[Candidate]:
        """Whom the proposer was last asked to improve, best first; they may have died since."""
        return self._state.parents

    def is_due(self, step: int) -> bool:
        """Whether to evolve after ``step``.

        It is not in the first half of a period after a generation that came late: its candidates
        would have been measured for nothing. Nor is it while there are challengers.
        """
        if self.selection.challengers.candidates:
            return False
        until = self.config.evolve_until
        if until is not None and step > until:
            return False
        if self.selection.challengers.mode == "in-training":
            return step - self._state.evolved >= self.period
        return step % self.period == 0 and not self._is_early(step)

    @property
    def period(self) -> int:
        """Steps from one generation to the next; at least, where children are tried in training."""
        return self.config.every(soon=self.selection.challengers.mode in ("in-training", "short"))

    @property
    def period_in_words(self) -> str:
        """As ``"every 15 steps"``."""
        return "every step" if self.period == 1 else f"every {self.period} steps"

    @property
    def period_expected(self) -> int:
        """As :attr:`period`, with the steps that deciding about challengers takes on average."""
        challengers = self.selection.challengers
        return max(
            self.period, challengers.steps_expected if challengers.mode == "in-training" else 1
        )

    def watch(self, step: int, due: bool) -> None:
        """Asks the proposer if it is time to, after engine step ``step``.

        Args:
            step: the engine step.
            due: whether evolution is due now.
        """
        self.report(step)
        self.look(step)
        state = self._state
        if state.asked is None:
            if self._has_nothing and (due or self._is_near(step)):
                self.start(step)
        elif state.parents and not state.again:
            parent = state.parents[0].id
            if all(one.id != parent for one in self.selection.living):
                state.again = True
                self.start(step)
                message = f"{parent} has died since the proposer was asked to improve it"
                now = ", ".join(one.id for one in state.parents)
                self.log.append(Notice(step, f"{message}; it is asked again, about {now}"))

    def start(self, step: int) -> None:
        """Lets a proposer think ahead: it is to improve those who lead after ``step``."""
        if not self.proposer.anticipates:
            return
        living = self.selection.candidate_stats()
        places = max(self.config.population_size - self.config.parents, 1)
        request = self.make(self.selection.parents(living), living, places, step)
        state = self._state
        state.asked, state.answered = step, False
        state.parents = [parent.candidate for parent in request.parents]
        with naming("proposer", self.proposer):
            self.proposer.anticipate(request)

    def is_ready(self, step: int) -> bool:
        """Whether the proposer can answer at once; if not, asks it and notes that it is late."""
        if not self.proposer.anticipates:
            return True
        self.look(step)
        if self._state.asked is None and self._has_nothing:
            self.start(step)
            self.look(step)
        if self.proposer.ready:
            return True
        if not self._state.late:
            self._state.late = True
            message = f"evolution is due at step {step} but the proposer is still thinking"
            self.log.append(Notice(step, f"{message}; training goes on"))
        return False

    def look(self, step: int) -> None:
        """Notes how long the answer took if it has come, after engine step ``step``."""
        state = self._state
        if state.asked is None or state.answered:
            self._resumed = False
            return
        if self.proposer.ready:
            state.answered = True
            state.latencies = [*state.latencies, max(step - state.asked, 0)][-_REMEMBERED:]
        elif self._resumed:  # the thought was lost
            state.asked = None
        self._resumed = False

    def begin_anew(self, step: int) -> None:
        """Waits for the next generation, after one that ended at engine step ``step``."""
        self._state = _State(latencies=self._state.latencies, evolved=step)

    @property
    def _has_nothing(self) -> bool:
        """Whether the proposer thinks ahead and has no answer."""
        return self.proposer.anticipates and not self.proposer.ready

    def _is_early(self, step: int) -> bool:
        """Whether ``step`` is in the first half of a period after the last generation."""
        return step - self._state.evolved < self.period // 2

    def _is_near(self, step: int) -> bool:
        """Whether a generation is as near as an answer is expected to be."""
        if self.selection.challengers.mode in ("in-training", "short"):
            return False  # it depends on when all are decided, and is asked about who leads then
        due = self.config.next_evolution(step)
        while due is not None and not self.is_due(due):
            due = self.config.next_evolution(due)
        if due is None:
            return False
        latencies = self._state.latencies or [_FIRST]
        return step >= due - median_low(latencies) and not self._is_early(step)

    def state_dict(self) -> dict[str, JsonValue]:
        """What was learnt and asked. A thought that is under way is lost, and begun again."""
        return self._state.model_dump(mode="json")

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        self._state = _State.model_validate(dict(state))
        self._resumed = True
