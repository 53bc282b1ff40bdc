"""Requests to the proposer: their content and their time, and how the proposals are received.

An attached trainer waits for proposals for :data:`GRACE` seconds at most. A proposer with
``anticipate`` works beside the training by itself; any other proposer is called in a thread.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from contextvars import copy_context
from dataclasses import dataclass, field, replace

from pydantic import BaseModel, JsonValue, NonNegativeInt

from evoprompt.config import EngineConfig
from evoprompt.log.eventlog import EventLog
from evoprompt.log.events import Notice
from evoprompt.proposers.combinators import note_cut, signed
from evoprompt.roles import ProposalRequest, Proposer, TrainingScale, Verifier
from evoprompt.screening import Screening
from evoprompt.selection import Selection
from evoprompt.support.calls import calling, naming
from evoprompt.types import (
    Candidate,
    CandidateStats,
    Proposal,
    TaskContext,
    VerificationResult,
)

_FAILURES_OFFERED = 8  # times as many failures as are shown are handed over for each parent


GRACE = 2.0
"""Seconds for which an attached trainer waits for a proposer that has no ``anticipate``. Within
them a run is a function of its seed, as if the proposer had been called directly."""

_IN_BACKGROUND = "training goes on without it"


class StillProposingError(Exception):
    """The proposer has not returned; the training goes on, and the request stays open."""


class _RequestsState(BaseModel):
    """State of the requests.

    Attributes:
        evolved: step of the last generation, 0 before the first.
        requested: step of the request that is open or answered, None if there is none.
        parents: candidates to improve.
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
        setting: the context of an instruction, as far as it is known.
    """

    config: EngineConfig
    selection: Selection
    screening: Screening
    proposer: Proposer
    verifier: Verifier
    log: EventLog
    setting: TaskContext = field(default_factory=TaskContext, init=False)
    _state: _RequestsState = field(default_factory=_RequestsState, init=False)
    _is_resumed: bool = field(default=False, init=False)
    _draft: Future[list[Proposal]] | None = field(default=None, init=False)
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False)
    _state_before: dict[str, JsonValue] = field(default_factory=dict, init=False)
    _undelivered: list[VerificationResult] = field(default_factory=list, init=False)

    # ---------------------------------------------------------------------------------- what

    def count_proposals(
        self, free_places: int, step: int, rounds: int, scale: TrainingScale
    ) -> int:
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
            corpus=replay.corpus(),
        )

    def propose(self, request: ProposalRequest, waits: bool) -> list[Proposal]:
        """Return the proposals of the proposer, signed with its name.

        Args:
            request: the request.
            waits: whether to wait for a proposer that does not return.

        Raises:
            StillProposingError: it has not returned, and ``waits`` is False.
            Exception: the proposer raised it.
        """
        waits = waits or self.proposer.is_waited_for
        if self._draft is None and (waits or self.proposer.can_anticipate):
            proposals = self._call(request)
        else:
            proposals = self._propose_in_thread(request, waits)
        if cut := note_cut(proposals, self.proposer):
            self.log.append(Notice(request.step, cut))
        return proposals

    def _call(
        self, request: ProposalRequest, meanwhile: str = "everything waits for it"
    ) -> list[Proposal]:
        with calling("proposer", self.proposer, self.log.report_wait, meanwhile):
            return signed(self.proposer.propose(request), self.proposer.name)

    def _propose_in_thread(self, request: ProposalRequest, waits: bool) -> list[Proposal]:
        own_rng = random.Random()
        own_rng.setstate(request.rng.getstate())
        is_new = self._draft is None
        if self._draft is None:
            self._state_before = self.proposer.state_dict()
            self._draft = Future()
            arguments = (self._write_draft, replace(request, rng=own_rng), self._draft)
            # A daemon thread does not block the end of the process.
            threading.Thread(
                target=copy_context().run, args=arguments, name="evoprompt-proposer", daemon=True
            ).start()
        draft = self._draft
        wait([draft], None if waits else GRACE if is_new else 0.0)
        if not draft.done():
            self._state.parents = [parent.candidate for parent in request.parents]
            self._note_late(request.step)
            raise StillProposingError
        self._draft = None
        if is_new:  # as if it had drawn from the generator itself
            request.rng.setstate(own_rng.getstate())
        self._deliver_feedback()
        return draft.result()

    def _write_draft(self, request: ProposalRequest, draft: Future[list[Proposal]]) -> None:
        try:
            with self._turn:  # one thread at a time, also after a state was loaded
                proposals = self._call(request, _IN_BACKGROUND)
        except BaseException as error:  # raised by the wait for the draft
            draft.set_exception(error)
        else:
            draft.set_result(proposals)

    @property
    def is_drafting(self) -> bool:
        """Return whether the proposer works in a thread of the engine at this moment."""
        return self._draft is not None and not self._draft.done()

    def give_feedback(self, results: Sequence[VerificationResult]) -> None:
        """Pass the results of a verification to the proposer, after its call in progress if any."""
        self._undelivered += results
        if not self.is_drafting:
            self._deliver_feedback()

    def _deliver_feedback(self) -> None:
        if self._undelivered:
            results, self._undelivered = self._undelivered, []
            with naming("proposer", self.proposer, self.log.report_wait):
                self.proposer.feedback(results)

    def report(self, step: int) -> None:
        """Log the notices of the proposer, unless it works in a thread of the engine."""
        if self.is_drafting:
            return
        with naming("proposer", self.proposer, self.log.report_wait):
            notices = self.proposer.notices()
        for message in notices:
            self.log.append(Notice(step, message))

    # ---------------------------------------------------------------------------------- when

    @property
    def is_late(self) -> bool:
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
        nothing. The step T_e counts: Algorithm 1 says ``t < T_e``, its Appendix C has one
        generation more; we follow the appendix.
        """
        until = self.config.evolve_until
        if until is not None and step > until:
            return False
        since = step - self._state.evolved
        if self.verifier.share:
            return since >= self.period and self.selection.is_compared
        return step % self.period == 0 and since >= self.period // 2

    def anticipate_generation(self, step: int, due: bool, scale: TrainingScale) -> None:
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
        if not self.proposer.can_anticipate or self.proposer.is_ready:
            return
        if self._state.requested is not None and not self._is_resumed:
            return
        self._is_resumed = False  # an answer that was under way is lost
        members = self.selection.candidate_stats()
        free_places = max(self.config.population_size - self.config.parents, 1)
        count = self.count_proposals(free_places, max(step, 1), 1, scale)
        request = self.make(self.selection.parents(members), members, count, step)
        self._state.requested = step
        self._state.parents = [parent.candidate for parent in request.parents]
        with naming("proposer", self.proposer, self.log.report_wait):
            self.proposer.anticipate(request)

    def is_ready(self, step: int, scale: TrainingScale) -> bool:
        """Return whether to ask the proposer for proposals now; if not, log that it is late."""
        if not self.proposer.can_anticipate:
            is_ready = not self.is_drafting
        else:
            self.start(step, scale)
            is_ready = self.proposer.is_ready
        if not is_ready:
            self._note_late(step)
        return is_ready

    def _note_late(self, step: int) -> None:
        if not self._state.is_late:
            self._state.is_late = True
            message = f"evolution is due at step {step} but the proposer is still thinking"
            self.log.append(Notice(step, f"{message}; training goes on"))

    def reset_schedule(self, step: int) -> None:
        """Wait for the next generation, after one that ended at engine step ``step``."""
        self._state = _RequestsState(evolved=step)

    def state_dict(self) -> dict[str, JsonValue]:
        """Return the schedule as JSON values. A request that is open is lost, and made again."""
        return self._state.model_dump(mode="json")

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continue from ``state``."""
        self._state = _RequestsState.model_validate(dict(state))
        self._is_resumed = True


@dataclass(frozen=True)
class ProposerState:
    """State of the proposer: before its call in progress, which is repeated after a resume.

    Attributes:
        requests: the requests to it.
    """

    requests: ProposalRequests

    def state_dict(self) -> dict[str, JsonValue]:
        """Return the state as JSON values."""
        requests = self.requests
        return requests._state_before if requests.is_drafting else requests.proposer.state_dict()

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continue from ``state``, without what a call in progress will return."""
        self.requests._draft, self.requests._undelivered = None, []
        self.requests.proposer.load_state_dict(state)
