"""New candidates are tried in training itself, beside their parent; no rollout is spent on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pydantic import JsonValue, TypeAdapter

from evoprompt.attributors import Adjusted
from evoprompt.roles import VerificationRequest
from evoprompt.types import Candidate, Trajectory, Verification, VerificationResult
from evoprompt.verifiers.measured import mean_of
from evoprompt.verifiers.unverified import Unverified

_CANDIDATES = TypeAdapter(list[Candidate])
_REWARDS = TypeAdapter(dict[str, list[float]])
_STATE = TypeAdapter(dict[str, JsonValue])
_TIE = 1e-9  # standard errors; a difference of two equal sums


class Probation:
    """Admits all there is room for on probation, and lets training decide who stays.

    Candidates on probation and the parent they are compared with, the best one, are drawn before
    all others until each of them has ``groups`` scored groups. Then, or when the next evolution is
    due, a candidate stays if it leads the parent by at least ``margin`` standard errors; the
    others leave the population.

    Only what was told during the probation counts: an old record of the parent would be of a
    weaker policy. Lead and standard error are those of
    :meth:`~evoprompt.attributors.Adjusted.difference`, without the difficulty of questions and
    steps. The policy trains on the rollouts as on any others.

    Args:
        groups: scored groups for each candidate, at least 1.
        margin: standard errors; 0 keeps who did no worse than the parent, a greater one who was
            shown to be better, and a negative one turns only the clearly worse away.
    """

    def __init__(self, groups: int = 150, margin: float = 0.0) -> None:
        if groups < 1:
            raise ValueError(f"groups is {groups}; required: at least 1")
        self.groups = groups
        self.margin = margin
        self._clear()

    def _clear(self) -> None:
        self._tried: list[Candidate] = []
        self._parent: list[Candidate] = []  # one at most
        self._evidence = Adjusted()
        self._rewards: dict[str, list[float]] = {}

    def most_rollouts(self, proposed: int, parents: int) -> int:
        """None are needed."""
        return 0

    def verify(self, request: VerificationRequest) -> Verification:
        """One result per proposed candidate; the first ``slots`` of them are admitted."""
        return Unverified().verify(request)

    def on_probation(self) -> Sequence[str]:
        """Ids of the candidates that are not decided on yet."""
        return [candidate.id for candidate in self._tried]

    def lacking(self) -> Mapping[str, int]:
        """How many groups candidates on probation and their parent still need, by id."""
        return {
            one.id: max(self.groups - self._evidence.stats(one).groups, 0)
            for one in (*self._parent, *self._tried)
        }

    def begin(self, candidates: Sequence[Candidate], parent: Candidate) -> None:
        """Starts the probation of new ``candidates``; whatever was under way is over."""
        self._clear()
        self._tried, self._parent = list(candidates), [parent]

    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Takes in what training told at engine step ``step``, of all candidates."""
        if not self._tried:
            return
        self._evidence.observe(step, trajectories)
        compared = {one.id for one in (*self._parent, *self._tried)}
        for one in trajectories:
            if one.reward is not None and one.candidate.id in compared:
                self._rewards.setdefault(one.candidate.id, []).append(one.reward)

    def conclude(self, final: bool) -> Verification | None:
        """What became of those on probation; None while too little is known.

        Args:
            final: whether to decide now, with what is known.
        """
        if not self._tried or not (final or not any(self.lacking().values())):
            return None
        (parent,) = self._parent
        found = Verification(
            tuple(self._judged(one, parent) for one in self._tried), (self._measured(parent),)
        )
        self._clear()
        return found

    def _measured(self, candidate: Candidate) -> VerificationResult:
        return mean_of(candidate, self._rewards.get(candidate.id, ()))

    def _judged(self, candidate: Candidate, parent: Candidate) -> VerificationResult:
        own, bar = self._measured(candidate), self._measured(parent)
        if own.mean is None or bar.mean is None:
            who = candidate if own.mean is None else parent
            return replace(own, reason=f"no rollout of {who.id} was scored during its probation")
        lead, error = self._evidence.difference(candidate.id, parent.id)
        if lead >= (self.margin - _TIE) * error:
            return replace(own, admitted=True)
        required = f"at least {self.margin:g} standard errors" if self.margin else "at least 0"
        return replace(
            own,
            reason=f"its lead over its parent {parent.id} in training is {lead:+.3f} ± "
            f"{error:.3f}; required: {required}",
        )

    def state_dict(self) -> dict[str, JsonValue]:
        """Who is on probation, and what is known, as JSON values."""
        return {
            "tried": _CANDIDATES.dump_python(self._tried, mode="json"),
            "parent": _CANDIDATES.dump_python(self._parent, mode="json"),
            "evidence": self._evidence.state_dict(),
            "rewards": _REWARDS.dump_python(self._rewards, mode="json"),
        }

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        tried = _CANDIDATES.validate_python(state["tried"])
        parent = _CANDIDATES.validate_python(state["parent"])
        if len(parent) != bool(tried):
            raise ValueError(f"{len(parent)} parents of {len(tried)} candidates; required: one")
        rewards = _REWARDS.validate_python(state["rewards"])
        evidence = Adjusted()
        evidence.load_state_dict(_STATE.validate_python(state["evidence"]))
        self._tried, self._parent = tried, parent
        self._evidence, self._rewards = evidence, rewards
