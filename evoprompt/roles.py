"""The five roles of the loop, and the one thing it asks of the outside. Read this first.

``engine.ask`` lets the *sampler* draw a candidate of the *population* for every question.
``engine.tell`` hands the scored trajectories to the *attributor* and prunes with the *survivor*
selector. ``engine.evolve`` picks parents with the *parent* selector, asks the *proposer* for texts,
passes them through the firewall and lets the *verifier* roll the rest out.

All roles are Protocols: a plugin inherits nothing. An implementation that holds state between calls
also implements :class:`Stateful`; the engine then saves and restores it. Randomness comes only from
the generator handed in, so that a run repeats from its seed.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from pydantic import JsonValue

from evoprompt.replay import ReplayBuffer
from evoprompt.types import (
    Assignment,
    Candidate,
    CandidateStats,
    Proposal,
    Setting,
    Trajectory,
    Verification,
    VerificationResult,
)


class RolloutFn(Protocol):
    """Rolls the current policy out; the only thing the engine asks of the outside."""

    def __call__(self, assignments: Sequence[Assignment], /) -> Sequence[Trajectory]:
        """Returns ``rollouts`` trajectories per assignment, in any order.

        They are made with the policy's weights of this moment and sampled as in training. One that
        failed has ``reward=None``.
        """
        ...


class Population(Protocol):
    """Who is alive, and who descends from whom."""

    @property
    def alive(self) -> Sequence[Candidate]:
        """The candidates in use, oldest first; never empty once a seed was added."""
        ...

    def __contains__(self, candidate_id: object, /) -> bool:
        """Whether a candidate of this id is alive."""
        ...

    def add(self, candidate: Candidate) -> None:
        """Lets ``candidate`` live.

        Raises:
            ValueError: its id is in use, or a parent of it was never alive.
        """
        ...

    def remove(self, ids: Collection[str]) -> None:
        """Ends the life of the named candidates; their lineage stays known.

        Raises:
            ValueError: one of them is not alive, or none would be left.
        """
        ...

    def ancestors(self, candidate_id: str) -> Sequence[Candidate]:
        """All forebears of a candidate, dead ones included, nearest first."""
        ...


class Selector(Protocol):
    """Chooses candidates. The same interface fills three seats: sampler, survivor and parent."""

    def select(
        self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
    ) -> Sequence[CandidateStats]:
        """Returns exactly ``k`` of ``candidate_stats``; the same one may be chosen again.

        The survivor and parent seats need distinct candidates: the engine removes repetitions and
        asks again for the rest. ``candidate_stats`` is never empty; weights are finite; ``k >= 0``.
        """
        ...


@runtime_checkable
class Probabilistic(Protocol):
    """A selector that can say how likely each choice is."""

    def probabilities(self, candidate_stats: Sequence[CandidateStats]) -> Sequence[float]:
        """The chance of each candidate to be drawn next; non-negative, sums to 1."""
        ...


class Attributor(Protocol):
    """Turns rewards of trajectories into an importance weight per candidate (paper Eq. 6)."""

    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Credits the scored ones of ``trajectories``, all told at engine step ``step``."""
        ...

    def stats(self, candidate: Candidate) -> CandidateStats:
        """What is known about ``candidate``; ``groups == 0`` when nothing is."""
        ...

    def reset(self, priors: Mapping[str, Sequence[float]]) -> None:
        """Forgets everything, then starts each named candidate from its list of rewards.

        An empty mapping gives the paper's "all weights are reset to 0".
        """
        ...

    def forget(self, ids: Collection[str]) -> None:
        """Drops what is known about candidates that are no longer alive."""
        ...


@runtime_checkable
class SupportsVerification(Protocol):
    """An attributor that can compare the rollouts of a verification with those of training.

    They are of replayed questions, which are harder than usual. Such an attributor is not reset at
    an evolution unless ``EngineConfig.reset`` is ``"zero"``.
    """

    def observe_verification(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Adds what a verification after engine step ``step`` showed of the living."""
        ...


@dataclass(frozen=True, slots=True)
class ProposalRequest:
    """Everything a proposer may look at.

    Attributes:
        count: number of proposals wished for, at least 1; fewer or more may be returned.
        parents: whom to improve upon, best first; never empty.
        failures: low-reward trajectories, most relevant first, more than need be read; of
            different questions as long as there are some. May be empty at the start.
        history: every candidate measured so far with its last weight, oldest first.
        rng: the engine's generator; the only source of randomness allowed.
        step: the engine step.
        required: substrings that every proposal must keep, such as protocol tags.
        component: which component to rewrite; empty leaves it to the proposer.
        failures_per_request: how many of the failures to read, where a proposer is not told.
        successes: beside ``failures``, a success at the same question where there is one.
        living: everybody in use at the moment, the parents included.
        refusals: why texts that were proposed the last time did not become candidates.
        max_tokens: most tokens of all texts of a proposal; None where nobody knows.
        setting: what stands around an instruction.
    """

    count: int
    parents: Sequence[CandidateStats]
    failures: Sequence[Trajectory]
    history: Sequence[CandidateStats]
    rng: random.Random
    step: int = 0
    required: Sequence[str] = field(default=())
    component: str = ""
    failures_per_request: int = 4
    successes: Sequence[Trajectory] = ()
    living: Sequence[CandidateStats] = ()
    refusals: Sequence[str] = ()
    max_tokens: int | None = None
    setting: Setting = field(default_factory=Setting)


class Proposer(Protocol):
    """Writes new instructions from parents, failures and history (paper §3.2, App. E)."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Returns up to about ``request.count`` proposals; an empty list when it has no idea.

        Proposals may be bad: the firewall and the verifier come next. Raising ends the
        generation without an admission; training goes on.
        """
        ...


@dataclass(frozen=True, slots=True)
class VerificationRequest:
    """Everything a verifier may look at and use in one round of a generation.

    Attributes:
        proposed: candidates to judge; may be empty.
        parents: whom they are to improve upon, best first; the same in all rounds of a generation.
        replay: questions to verify on, and how they have gone; may be empty.
        rollout: rolls assignments out; may be called several times, best in batches. The ids of
            the assignments are unique within a round.
        slots: free places, at least 0.
        rng: the engine's generator; the only source of randomness allowed.
        earlier: what the earlier rounds of this generation have found, oldest first.
        rounds_left: most rounds that may follow this one in the generation.
    """

    proposed: Sequence[Candidate]
    parents: Sequence[CandidateStats]
    replay: ReplayBuffer
    rollout: RolloutFn
    slots: int
    rng: random.Random
    earlier: Sequence[Verification] = ()
    rounds_left: int = 0


class Verifier(Protocol):
    """Rolls proposed candidates out with the current policy and admits the best."""

    def verify(self, request: VerificationRequest) -> Verification:
        """Returns one result per proposed candidate, at most ``request.slots`` of them admitted."""
        ...


@runtime_checkable
class SupportsForecast(Protocol):
    """A verifier that can say beforehand what a round costs; ``--dry-run`` shows it."""

    def most_rollouts(self, proposed: int, parents: int) -> int:
        """Most rollouts of a round that tries so many candidates of so many parents."""
        ...


@runtime_checkable
class SupportsProbation(Protocol):
    """A verifier that admits on probation: what training shows decides who stays.

    Whoever it admits is drawn first, beside the parent, while anybody is ``lacking`` groups. Until
    it concludes, nobody is pruned, and those on probation neither breed nor are the engine's best.
    The engine asks it to conclude after every step, and for the last time before an evolution.
    """

    def on_probation(self) -> Sequence[str]:
        """Ids of the candidates that are not decided on yet."""
        ...

    def lacking(self) -> Mapping[str, int]:
        """How many groups candidates on probation and their parent still need, by id."""
        ...

    def begin(self, candidates: Sequence[Candidate], parent: Candidate) -> None:
        """Starts the probation of the newly admitted ``candidates`` beside the best parent."""
        ...

    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Takes in what training told at engine step ``step``, of all candidates."""
        ...

    def conclude(self, final: bool) -> Verification | None:
        """A result per candidate on probation, ``admitted`` if it stays; None while undecided.

        With ``final`` it has to decide if anybody is on probation.
        """
        ...


@runtime_checkable
class Stateful(Protocol):
    """An implementation of any role that must survive a kill and resume."""

    def state_dict(self) -> dict[str, JsonValue]:
        """Everything needed to continue, as JSON values."""
        ...

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``; raises :class:`~evoprompt.errors.StateError` if it cannot."""
        ...


@runtime_checkable
class Checkable(Protocol):
    """An implementation of any role that can tell beforehand whether it is going to work.

    ``evoprompt.plugins.build`` checks what it has built; ``attach``, ``evoprompt run`` and veRL's
    start also probe, so that a wrong key is found before the training and not after it.
    """

    def check(self, probe: bool = False) -> None:
        """Returns if it can work here, as far as can be known without sending anything.

        Args:
            probe: also ask the service behind it once, as cheaply as possible; not where it has
                answered before in this run.

        Raises:
            InputError: it cannot; the message names what was given, what is required and the
                remedy.
        """
        ...


@runtime_checkable
class SupportsPrefetch(Protocol):
    """A proposer that thinks ahead, so that training need not wait for it.

    The engine calls ``anticipate`` from ``tell``, as many steps before evolution is due as earlier
    answers took, and once more if the parent has died meanwhile. When evolution is due and
    ``ready`` is False, an attached trainer goes on, the log notes it, and the engine looks again at
    every following step. Without a trainer the engine calls ``propose`` all the same, which then
    waits for its own thought.
    """

    @property
    def ready(self) -> bool:
        """Whether ``propose`` would return, or raise, at once with something new."""
        ...

    def anticipate(self, request: ProposalRequest) -> None:
        """Starts to propose for ``request`` in the background; returns at once.

        The answer to an earlier request that ``propose`` did not return yet is dropped.
        """
        ...


@runtime_checkable
class SupportsFeedback(Protocol):
    """A proposer that learns from what became of its offspring."""

    def feedback(self, results: Sequence[VerificationResult]) -> None:
        """Takes in the results of one verification round; called after each round.

        ``VerificationResult.candidate.proposer`` tells whose offspring each was.
        """
        ...


@runtime_checkable
class SupportsMetrics(Protocol):
    """A proposer that has something to tell besides its proposals."""

    def notices(self) -> Sequence[str]:
        """What a person should know and was not told yet; the engine logs it as Notice events.

        Called in the engine's own thread, after every ``propose`` and before every ``tell``
        returns.
        """
        ...

    def metrics(self) -> Mapping[str, float]:
        """Totals of the run so far, such as ``lm/calls`` and ``lm/usd``, to be logged."""
        ...


@runtime_checkable
class Delegates(Protocol):
    """A proposer that asks others, and goes on when one of them fails."""

    def failures_caught(self) -> int:
        """How often in this run another proposer raised and the error was not passed on.

        Part of its state, like every total; the engine counts the errors that reach it.
        """
        ...
