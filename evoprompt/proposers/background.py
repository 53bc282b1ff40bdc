"""Background: proposes in a thread while training goes on."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pydantic import JsonValue, TypeAdapter

from evoprompt.proposers.combinators import Wrapper, signed
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.types import Proposal, VerificationResult

_PROPOSALS = TypeAdapter(list[Proposal])


class _Job:
    """A request being answered in a thread that does not keep the process alive."""

    def __init__(self, proposer: Proposer, request: ProposalRequest) -> None:
        self.done = threading.Event()
        self.proposals: Sequence[Proposal] = []
        self.error: Exception | None = None
        self._proposer = proposer
        self._next: ProposalRequest | None = request
        self._handing_over = threading.Lock()
        threading.Thread(target=self._run, name="evoprompt-proposer", daemon=True).start()

    def replace(self, request: ProposalRequest) -> bool:
        """Drops the answer under way for one to ``request``; whether it was still under way."""
        with self._handing_over:
            if self.done.is_set():
                return False
            self._next = request
            return True

    def _run(self) -> None:
        try:
            while (request := self._taken()) is not None:
                self.proposals, self.error = [], None
                try:
                    self.proposals = self._proposer.propose(request)
                except Exception as error:
                    self.error = error
        finally:
            self.done.set()

    def _taken(self) -> ProposalRequest | None:
        """The request to answer now; None, and the end, if there is none."""
        with self._handing_over:
            request, self._next = self._next, None
            if request is None:
                self.done.set()  # while nobody can replace the request
            return request


class Background(Wrapper):
    """Lets ``inner`` propose in a thread, from the moment it is anticipated.

    When the moment an answer arrives decides what happens, a run is no longer a function of its
    seed; what arrived is in the event log, and in a recording of the language model if one is
    kept. Whoever calls ``propose`` before ``ready`` waits for ``inner``.

    Args:
        inner: the proposer; it is only ever used by one thread at a time.
    """

    def __init__(self, inner: Proposer) -> None:
        super().__init__(inner)
        self._thinker = inner
        self._job: _Job | None = None
        self._arrived: list[Proposal] | None = None
        self._verdicts: list[VerificationResult] = []

    @property
    def name(self) -> str:
        """That of ``inner``."""
        return self._thinker.name

    @property
    def ready(self) -> bool:
        """Whether proposals, or an error, have arrived that ``propose`` did not return yet."""
        return self._arrived is not None or (self._job is not None and self._job.done.is_set())

    def anticipate(self, request: ProposalRequest) -> None:
        """Starts to answer ``request``; the answer to an earlier one is dropped.

        If ``inner`` is at work on that, it begins when it has finished.
        """
        rng = random.Random(request.rng.getrandbits(64))
        wanted = replace(_detached(request), rng=rng)
        self._arrived = None
        if self._job is None or not self._job.replace(wanted):
            self._learn()
            self._job = _Job(self._thinker, wanted)

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """What has arrived, or will: waits for an answer that is under way.

        Raises:
            Exception: what ``inner`` raised.
        """
        if self._arrived is not None:
            proposals, self._arrived = self._arrived, None
            return proposals
        if self._job is None:
            self._learn()
            return signed(self._thinker.propose(request), self.name)
        self._job.done.wait()
        job, self._job = self._job, None
        if job.error is not None:
            raise job.error
        return signed(job.proposals, self.name)

    def feedback(self, results: Sequence[VerificationResult]) -> None:
        """Tells ``inner`` as soon as its thread has ended."""
        self._verdicts += results
        if self._job is None:
            self._learn()

    def _learn(self) -> None:
        results, self._verdicts = self._verdicts, []
        if results:
            self._thinker.feedback(results)

    def notices(self) -> Sequence[str]:
        """What ``inner`` has to say, once its thread has ended."""
        idle = self._job is None or self._job.done.is_set()
        return super().notices() if idle else []

    def state_dict(self) -> dict[str, JsonValue]:
        """The state of ``inner`` and what has arrived; a request under way is asked again."""
        arrived = self._arrived
        if self._job is not None and self._job.done.is_set() and self._job.error is None:
            arrived = signed(self._job.proposals, self.name)
        state = super().state_dict()
        if arrived is not None:
            state["arrived"] = _PROPOSALS.dump_python(arrived, mode="json")
        return state

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        arrived = _PROPOSALS.validate_python(state["arrived"]) if "arrived" in state else None
        super().load_state_dict(state)
        self._job, self._arrived, self._verdicts = None, arrived, []


def _detached(request: ProposalRequest) -> ProposalRequest:
    """The request with sequences of its own: the engine goes on changing its own."""
    return replace(
        request,
        parents=list(request.parents),
        failures=list(request.failures),
        history=list(request.history),
        required=tuple(request.required),
    )
