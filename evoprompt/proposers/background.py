"""Background: a proposer that works in a thread while training continues."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import replace

from pydantic import JsonValue, TypeAdapter

from evoprompt.proposers.combinators import Wrapper, signed
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.support.calls import calling
from evoprompt.types import Proposal, VerificationResult

_PROPOSALS = TypeAdapter(list[Proposal])


class Background(Wrapper):
    """Proposer that runs ``inner`` in a thread, from the moment a request is anticipated.

    If the arrival time of proposals decides the course of a run, the run is no longer a function of
    its seed; the event log contains all proposals that arrived, and so does the recording of the
    language model, if there is one. A caller of ``propose`` before ``is_ready`` waits for
    ``inner``.

    Args:
        inner: the proposer; only a single thread uses it at any time.
    """

    def __init__(self, inner: Proposer) -> None:
        super().__init__(inner)
        self._proposer = inner
        self._turn = threading.Lock()
        self._draft: Future[Sequence[Proposal]] | None = None
        self._arrived: list[Proposal] | None = None
        self._verdicts: list[VerificationResult] = []

    @property
    def name(self) -> str:
        """Return the name of ``inner``."""
        return self._proposer.name

    @property
    def is_ready(self) -> bool:
        """Return whether proposals, or an error, arrived that ``propose`` did not return yet."""
        draft = self._draft
        return self._arrived is not None or (draft is not None and draft.done())

    def anticipate(self, request: ProposalRequest) -> None:
        """Start to write proposals for ``request``; drop the result of an earlier request.

        If ``inner`` is still working on that, it starts when it has finished.
        """
        own_request = replace(request, rng=random.Random(request.rng.getrandbits(64)))
        if self._draft is not None:
            self._draft.cancel()
        self._arrived = None
        self._deliver_feedback()
        self._draft = Future()
        arguments, name = (self._write_draft, own_request, self._draft), "evoprompt-proposer"
        # A daemon thread does not block the end of the process; ``inner`` has the caller's context.
        run = copy_context().run
        threading.Thread(target=run, args=arguments, name=name, daemon=True).start()

    def _write_draft(self, request: ProposalRequest, draft: Future[Sequence[Proposal]]) -> None:
        try:
            with self._turn:  # another thread waits
                if not draft.set_running_or_notify_cancel():
                    return
                meanwhile = "training goes on without it"
                with calling("proposer", self._proposer, meanwhile=meanwhile):
                    proposals = signed(self._proposer.propose(request), self.name)
        except BaseException as error:  # raised by the wait for the draft
            draft.set_exception(error)
        else:
            draft.set_result(proposals)

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Return the proposals that arrived; wait for a request in progress.

        Raises:
            Exception: the error that ``inner`` raised.
        """
        if self._arrived is not None:
            proposals, self._arrived = self._arrived, None
            return proposals
        if self._draft is None:
            self._deliver_feedback()
            return signed(self._proposer.propose(request), self.name)
        draft = self._draft
        draft.exception()  # waits; the draft remains in progress if the wait is interrupted
        self._draft = None
        return draft.result()

    def feedback(self, results: Sequence[VerificationResult]) -> None:
        """Pass the results to ``inner`` now, if it is idle, or else before its next request."""
        self._verdicts += results
        self._deliver_feedback()

    def _deliver_feedback(self) -> None:
        if self._verdicts and self._turn.acquire(blocking=False):
            try:
                results, self._verdicts = self._verdicts, []
                self._proposer.feedback(results)
            finally:
                self._turn.release()

    def notices(self) -> Sequence[str]:
        """Return new messages of ``inner``, once its thread has ended."""
        idle = self._draft is None or self._draft.done()
        return super().notices() if idle else []

    def state_dict(self) -> dict[str, JsonValue]:
        """Return the state of ``inner`` and the arrived proposals.

        A request in progress is repeated after a resume.
        """
        arrived, draft = self._arrived, self._draft
        if draft is not None and draft.done() and draft.exception() is None:
            arrived = [*draft.result()]
        state = super().state_dict()
        if arrived is not None:
            state["arrived"] = _PROPOSALS.dump_python(arrived, mode="json")
        return state

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continue from ``state``."""
        arrived = _PROPOSALS.validate_python(state["arrived"]) if "arrived" in state else None
        super().load_state_dict(state)
        self._draft, self._arrived, self._verdicts = None, arrived, []
