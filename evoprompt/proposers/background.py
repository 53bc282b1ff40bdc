"""Background: proposes in a thread while training goes on."""

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
from evoprompt.types import Proposal, VerificationResult

_PROPOSALS = TypeAdapter(list[Proposal])


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
        self._turn = threading.Lock()
        self._thought: Future[Sequence[Proposal]] | None = None
        self._arrived: list[Proposal] | None = None
        self._verdicts: list[VerificationResult] = []

    @property
    def name(self) -> str:
        """That of ``inner``."""
        return self._thinker.name

    @property
    def ready(self) -> bool:
        """Whether proposals, or an error, have arrived that ``propose`` did not return yet."""
        thought = self._thought
        return self._arrived is not None or (thought is not None and thought.done())

    def anticipate(self, request: ProposalRequest) -> None:
        """Starts to answer ``request``; the answer to an earlier one is dropped.

        If ``inner`` is at work on that, it begins when it has finished.
        """
        asked = replace(request, rng=random.Random(request.rng.getrandbits(64)))
        if self._thought is not None:
            self._thought.cancel()
        self._arrived = None
        self._learn()
        self._thought = Future()
        given, name = (self._think, asked, self._thought), "evoprompt-proposer"
        # A daemon, which does not keep the process alive; ``inner`` sees the caller's context.
        run = copy_context().run
        threading.Thread(target=run, args=given, name=name, daemon=True).start()

    def _think(self, request: ProposalRequest, thought: Future[Sequence[Proposal]]) -> None:
        try:
            with self._turn:  # another one waits
                if not thought.set_running_or_notify_cancel():
                    return
                proposals = self._thinker.propose(request)
        except Exception as error:
            thought.set_exception(error)
        else:
            thought.set_result(proposals)

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """What has arrived, or will: waits for an answer that is under way.

        Raises:
            Exception: what ``inner`` raised.
        """
        if self._arrived is not None:
            proposals, self._arrived = self._arrived, None
            return proposals
        if self._thought is None:
            self._learn()
            return signed(self._thinker.propose(request), self.name)
        thought = self._thought
        thought.exception()  # waits, and is still under way if that is interrupted
        self._thought = None
        return signed(thought.result(), self.name)

    def feedback(self, results: Sequence[VerificationResult]) -> None:
        """Tells ``inner`` when it is not at work, or else before it is asked again."""
        self._verdicts += results
        self._learn()

    def _learn(self) -> None:
        if self._verdicts and self._turn.acquire(blocking=False):
            try:
                results, self._verdicts = self._verdicts, []
                self._thinker.feedback(results)
            finally:
                self._turn.release()

    def notices(self) -> Sequence[str]:
        """What ``inner`` has to say, once its thread has ended."""
        idle = self._thought is None or self._thought.done()
        return super().notices() if idle else []

    def state_dict(self) -> dict[str, JsonValue]:
        """The state of ``inner`` and what has arrived; a request under way is asked again."""
        arrived, thought = self._arrived, self._thought
        if thought is not None and thought.done() and thought.exception() is None:
            arrived = signed(thought.result(), self.name)
        state = super().state_dict()
        if arrived is not None:
            state["arrived"] = _PROPOSALS.dump_python(arrived, mode="json")
        return state

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        arrived = _PROPOSALS.validate_python(state["arrived"]) if "arrived" in state else None
        super().load_state_dict(state)
        self._thought, self._arrived, self._verdicts = None, arrived, []
