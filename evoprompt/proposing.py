"""Requests to the proposer: what it is asked, and when. Training never waits for its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, JsonValue, NonNegativeInt

from evoprompt.config import EngineConfig
from evoprompt.log.eventlog import EventLog
from evoprompt.log.events import Notice
from evoprompt.plugins import naming
from evoprompt.roles import ProposalRequest, Proposer, TrainingScale, Verifier
from evoprompt.screening import Screening
from evoprompt.selection import Selection
from evoprompt.types import Candidate, CandidateStats, TaskContext

_FAILURES_OFFERED = 8  # times as many failures as are shown are handed over for each parent


class _State(BaseModel):
    """State of the requests.

    Attributes:
        evolved: step of the last generation, 0 before the first.
        requested: step of the request that is open or answered, None if there is none.
        parents: candidates that it was to improve.
        is_late: whether evolution is due and waits for the proposer.
    """

    evolved: NonNegativeInt = 0
    requested: NonNegativeInt | None = None
    parents: list[Candidate] = []
    is_late: bool = False


@dataclass(eq=False)
class ProposalRequests:
    """Requests to the proposer, which may work in the background.

    A request is sent to a background proposer when the last candidate on trial is decided, or one
    step before a generation with extra rollouts is due. A late answer is used when it comes.

    Attributes:
        config: the engine's numbers.
        selection: the members, and their history.
        screening: what texts must keep, and why the last ones were rejected.
        proposer: is asked.
        verifier: decides about what it writes.
        log: takes the events.
        setting: what stands around an instruction, as far as it is known.
    """

    config: EngineConfig
    selection: Selection
    screening: Screening
    proposer: Proposer
    verifier: Verifier
    log: EventLog
    setting: TaskContext = field(default_factory=TaskContext, init=False)
    _state: _State = field(default_factory=_State, init=False)
    _is_resumed: bool = field(default=False, init=False)

    # ---------------------------------------------------------------------------------- what

    def wanted(self, free_places: int, step: int, rounds: int, scale: TrainingScale) -> int:
        """Return how many proposals to ask for.

        Args:
            free_places: free places.
            step: the engine step.
            rounds: most rounds of the generation.
            scale: size of the training.
        """
        if not step:
            return free_places
        return self.config.proposals_per_round or self.verifier.proposals(
            free_places, rounds, scale
        )

    def make(
        self,
        parents: Sequence[CandidateStats],
        members: Sequence[CandidateStats],
        count: int,
        step: int,
    ) -> ProposalRequest:
        """Return a request to improve ``parents``, given their latest failures."""
        rng, replay = self.selection.rng, self.screening.replay
        ids = {parent.candidate.id for parent in parents}
        num_shown = self.config.failures_per_request
        offered = replay.failures(num_shown * _FAILURES_OFFERED * len(ids), rng, ids)
        # A failure without text teaches nothing: it only fills up where there is too little else.
        failures = [
            failure for index, failure in enumerate(offered) if failure.turns or index < num_shown
        ]
        return ProposalRequest(
            count,
            parents,
            failures,
            self.selection.history,
            rng,
            step,
            self.screening.required,
            failures_per_request=num_shown,
            successes=replay.successes(failures),
            members=members,
            rejections=[*map(str, self.screening.findings)],
            max_tokens=self.screening.remaining_tokens(),
            setting=self.setting,
            sentences=self.selection.sentences(),
        )

    def report(self, step: int) -> None:
        """Log the notices of the proposer."""
        with naming("proposer", self.proposer):
            notices = self.proposer.notices()
        for message in notices:
            self.log.append(Notice(step, message))

    # ---------------------------------------------------------------------------------- when

    @property
    def late(self) -> bool:
        """Return whether evolution is due and waits for the proposer."""
        return self._state.is_late

    @property
    def requested_parents(self) -> Sequence[Candidate]:
        """Return the parents of the last background request, best first; perhaps pruned since."""
        return self._state.parents

    @property
    def period(self) -> int:
        """Return the steps from one generation to the next; the least of them, with trials."""
        return self.config.every(soon=self.verifier.share > 0)

    @property
    def period_in_words(self) -> str:
        """Return the period in words, such as ``"every 15 steps"``."""
        return "every step" if self.period == 1 else f"every {self.period} steps"

    def is_due(self, step: int) -> bool:
        """Return whether to evolve after ``step``, where no candidate is on trial.

        With trials that is as soon as all members can be compared, so that no seed is given up
        before it was measured.

        With extra rollouts that is at multiples of the period, but not in the first half of a
        period after a generation that came late: its candidates would have been measured for
        nothing.
        """
        until = self.config.evolve_until
        if until is not None and step > until:
            return False
        since = step - self._state.evolved
        if self.verifier.share:
            return since >= self.period and self.selection.is_compared
        return step % self.period == 0 and since >= self.period // 2

    def watch(self, step: int, due: bool, scale: TrainingScale) -> None:
        """Ask a background proposer if it is time to, after engine step ``step``.

        Args:
            step: the engine step.
            due: whether evolution is due now.
            scale: size of the training.
        """
        self.report(step)
        is_near = not self.verifier.share and self.is_due(step + 1)
        if due or is_near:
            self.start(step, scale)

    def start(self, step: int, scale: TrainingScale) -> None:
        """Let a background proposer begin to improve the parents of this moment, once."""
        if not self.proposer.can_anticipate or self.proposer.ready:
            return
        if self._state.requested is not None and not self._is_resumed:
            return
        self._is_resumed = False  # an answer that was under way is lost
        members = self.selection.candidate_stats()
        free_places = max(self.config.population_size - self.config.parents, 1)
        count = self.wanted(free_places, max(step, 1), 1, scale)
        request = self.make(self.selection.parents(members), members, count, step)
        self._state.requested = step
        self._state.parents = [parent.candidate for parent in request.parents]
        with naming("proposer", self.proposer):
            self.proposer.anticipate(request)

    def is_ready(self, step: int, scale: TrainingScale) -> bool:
        """Return whether the proposer can answer immediately; if not, ask it and log that."""
        if not self.proposer.can_anticipate:
            return True
        self.start(step, scale)
        if self.proposer.ready:
            return True
        if not self._state.is_late:
            self._state.is_late = True
            message = f"evolution is due at step {step} but the proposer is still thinking"
            self.log.append(Notice(step, f"{message}; training goes on"))
        return False

    def reset_schedule(self, step: int) -> None:
        """Wait for the next generation, after one that ended at engine step ``step``."""
        self._state = _State(evolved=step)

    def state_dict(self) -> dict[str, JsonValue]:
        """Return the schedule as JSON values. A request that is open is lost, and made again."""
        return self._state.model_dump(mode="json")

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continue from ``state``."""
        self._state = _State.model_validate(dict(state))
        self._is_resumed = True
