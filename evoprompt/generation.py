"""One generation: propose, judge, verify, admit; repeated until the population is full.

"Generation" is one such cycle here, never the sampling of text by a model.
"""

from __future__ import annotations

import math
import random
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue, TypeAdapter

from evoprompt.config import EngineConfig
from evoprompt.events import Event, Notice, Proposed, Verified
from evoprompt.firewall import Finding, Firewall, FirewallContext
from evoprompt.interfaces import (
    Anticipates,
    Learns,
    ProposalRequest,
    Proposer,
    Reports,
    RolloutFn,
    Verifier,
)
from evoprompt.replay import ReplayBuffer
from evoprompt.types import (
    Assignment,
    Candidate,
    Proposal,
    Standing,
    TextLimits,
    Trajectory,
    Verdict,
    Verification,
)

_REMEMBERED_REJECTIONS = 64
_TEXTS = TypeAdapter(list[str])


@dataclass(slots=True)
class Offspring:
    """What one generation brought forth.

    Attributes:
        admitted: verdicts of the candidates to admit, in order of admission.
        standings: what verification showed of all that were scored.
        rewards: verification rewards per candidate id, parents included.
        rounds: propose-verify rounds made.
        proposed: proposals received, rejected ones included.
        rollouts: verification rollouts spent.
        seconds: time spent inside the rollouts.
    """

    admitted: list[Verdict] = field(default_factory=list)
    standings: list[Standing] = field(default_factory=list)
    rewards: dict[str, list[float]] = field(default_factory=dict)
    rounds: int = 0
    proposed: int = 0
    rollouts: int = 0
    seconds: float = 0.0


class Breeder:
    """Turns parents into verified offspring (paper Algorithm 1, the evolution step).

    Args:
        proposer: writes texts.
        firewall: judges them before a rollout is spent.
        verifier: rolls the rest out.
        config: the engine's numbers.
        replay: failures to learn from and questions to verify on.
        rng: the engine's generator.
        required: substrings every instruction must keep.
        emit: takes the events.
    """

    def __init__(
        self,
        proposer: Proposer,
        firewall: Firewall,
        verifier: Verifier,
        config: EngineConfig,
        replay: ReplayBuffer,
        rng: random.Random,
        required: Sequence[str],
        emit: Callable[[Event], None],
    ) -> None:
        self.proposer = proposer
        self.firewall = firewall
        self.verifier = verifier
        self.config = config
        self.replay = replay
        self.rng = rng
        self.required = tuple(required)
        self.emit = emit
        self.limits = TextLimits()
        self._rejected: deque[str] = deque(maxlen=_REMEMBERED_REJECTIONS)
        self._next_id = 0

    @property
    def born(self) -> int:
        """Candidates that ever got an id."""
        return self._next_id

    def new_candidate(self, proposal: Proposal, step: int) -> Candidate:
        """A candidate with the next free id."""
        candidate = Candidate(
            f"c{self._next_id}",
            dict(proposal.components),
            proposal.parents,
            step,
            proposal.proposer or type(self.proposer).__name__,
            proposal.rationale,
        )
        self._next_id += 1
        return candidate

    def report(self, step: int) -> None:
        """Logs what the proposer has to tell a person."""
        if isinstance(self.proposer, Reports):
            for message in self.proposer.notices():
                self.emit(Notice(step, message))

    def request(
        self,
        parents: Sequence[Standing],
        places: int,
        step: int,
        history: Sequence[Standing],
    ) -> ProposalRequest:
        """What the proposer is asked: to improve ``parents``, given their latest failures."""
        count = self.config.proposals_per_round or places
        ids = {parent.candidate.id for parent in parents}
        failures = self.replay.failures(self.config.failures_per_request, self.rng, ids)
        return ProposalRequest(count, parents, failures, history, self.rng, step, self.required)

    def breed(
        self,
        parents: Sequence[Standing],
        living: Sequence[Candidate],
        places: int,
        step: int,
        history: Sequence[Standing],
        rollout: RolloutFn,
    ) -> Offspring:
        """Offspring for up to ``places`` places, from at most ``verify_rounds`` rounds.

        With an empty replay buffer (at the very start) there is nothing to verify on: what passes
        the firewall is admitted unmeasured.
        """
        found = Offspring()
        while len(found.admitted) < places and found.rounds < self.config.verify_rounds:
            if isinstance(self.proposer, Anticipates) and not self.proposer.ready:
                break
            slots = places - len(found.admitted)
            request = self.request(parents, slots, step, history)
            proposals = self._ask_proposer(request)
            self.report(step)
            if not proposals:
                break
            found.rounds += 1
            found.proposed += len(proposals)
            born = [verdict.candidate for verdict in found.admitted]
            fresh = self._judge(proposals, parents, [*living, *born], step)
            if not fresh:
                continue
            if not len(self.replay):
                found.admitted += [
                    Verdict(candidate, math.nan, math.nan, 0, admitted=True)
                    for candidate in fresh[:slots]
                ]
                continue
            started = time.perf_counter()
            verification = self.verifier.verify(
                fresh, parents, self.replay, _refusing_nan(rollout), slots, self.rng
            )
            found.seconds += time.perf_counter() - started
            self._record(verification, found, step)
        return found

    def _ask_proposer(self, request: ProposalRequest) -> Sequence[Proposal]:
        try:
            proposals = list(self.proposer.propose(request))
            for proposal in proposals:
                if not isinstance(proposal, Proposal):
                    raise TypeError(f"it returned {proposal!r}; required: Proposal objects")
            return proposals
        except Exception as error:  # a proposer's failure must never end a training run
            reason = f"{type(error).__name__}: {error}"
            self.emit(Notice(request.step, f"the proposer failed, training goes on: {reason}"))
            return []

    def _judge(
        self,
        proposals: Sequence[Proposal],
        parents: Sequence[Standing],
        living: Sequence[Candidate],
        step: int,
    ) -> list[Candidate]:
        by_id = {candidate.id: candidate for candidate in living}
        texts = [candidate.text for candidate in living]
        records = self.replay.records
        questions = [record.question.text for record in records]
        answers = [answer for record in records for answer in record.question.answers]
        passed: list[Candidate] = []
        for proposal in proposals:
            known = [by_id[parent] for parent in proposal.parents if parent in by_id]
            forebears = known or [parents[0].candidate]
            finding = _mismatch(proposal, forebears[0]) or self.firewall.check(
                proposal,
                FirewallContext(
                    parents=[parent.text for parent in forebears],
                    required=self.required,
                    living=texts,
                    rejected=tuple(self._rejected),
                    questions=questions,
                    answers=answers,
                    control_tokens=self.limits.control_tokens,
                    max_tokens=self.limits.max_tokens,
                    max_prompt_tokens=self.limits.max_prompt_tokens,
                    count_tokens=self.limits.count_tokens,
                ),
            )
            candidate = None
            if finding is None:
                candidate = self.new_candidate(
                    Proposal(
                        proposal.components,
                        tuple(forebear.id for forebear in forebears),
                        proposal.rationale,
                        proposal.proposer,
                    ),
                    step,
                )
                passed.append(candidate)
                texts.append(candidate.text)
            self.emit(
                Proposed(
                    step,
                    candidate.id if candidate else "",
                    dict(proposal.components),
                    tuple(forebear.id for forebear in forebears),
                    proposal.proposer or type(self.proposer).__name__,
                    proposal.rationale,
                    finding.rule if finding else "",
                    finding.reason if finding else "",
                )
            )
        return passed

    def _record(self, verification: Verification, found: Offspring, step: int) -> None:
        if isinstance(self.proposer, Learns):
            self.proposer.feedback(verification.verdicts)
        for verdict in verification.verdicts:
            if verdict.admitted:
                found.admitted.append(verdict)
            else:
                self._rejected.append(verdict.candidate.text)
            if verdict.scored:
                found.standings.append(
                    Standing(verdict.candidate, verdict.mean, groups=verdict.scored)
                )
        found.rollouts += len(verification.trajectories)
        for trajectory in verification.trajectories:
            if trajectory.reward is not None:
                found.rewards.setdefault(trajectory.candidate.id, []).append(trajectory.reward)
        for verdicts, is_parent in ((verification.parents, True), (verification.verdicts, False)):
            for verdict in verdicts:
                self.emit(
                    Verified(
                        step,
                        verdict.candidate.id,
                        found.rounds,
                        None if math.isnan(verdict.mean) else verdict.mean,
                        None if math.isnan(verdict.stderr) else verdict.stderr,
                        verdict.scored,
                        verdict.admitted,
                        verdict.reason,
                        is_parent,
                    )
                )

    def state_dict(self) -> dict[str, JsonValue]:
        """The next id and the recent rejections."""
        return {"next_id": self._next_id, "rejected": list(self._rejected)}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        rejected = _TEXTS.validate_python(state["rejected"])
        self._next_id = TypeAdapter(int).validate_python(state["next_id"])
        self._rejected = deque(rejected, maxlen=_REMEMBERED_REJECTIONS)


def _mismatch(proposal: Proposal, parent: Candidate) -> Finding | None:
    """A finding when ``proposal`` has other components than its parent, or one without a text."""
    named = set(proposal.components) == set(parent.components)
    if named and all(isinstance(text, str) for text in proposal.components.values()):
        return None
    return Finding(
        "components",
        f"has the components {dict(proposal.components)!r}; required: a text for each of "
        f"{sorted(parent.components)}, as in its parent",
    )


def _refusing_nan(rollout: RolloutFn) -> RolloutFn:
    """``rollout``, raising an InputError for rewards that are no numbers."""

    def checked(assignments: Sequence[Assignment], /) -> Sequence[Trajectory]:
        trajectories = rollout(assignments)
        for trajectory in trajectories:
            trajectory.require_finite()
        return trajectories

    return checked
