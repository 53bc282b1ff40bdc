"""Base classes of the five roles, and the rollout function that the engine needs.

``engine.ask`` draws members of the *population* for every question with the *sampler*, beside the
candidates on trial. ``engine.tell`` hands the scored trajectories to the *attributor*, asks the
*verifier* about the candidates on trial, and prunes with the *survivor* selector. ``engine.evolve``
picks parents with the *parent* selector, asks the *proposer* for texts, screens them, and hands the
accepted texts to the *verifier*, which decides with extra rollouts or leaves them on trial.

Each role is a base class with one to four abstract methods. All other methods have a default. An
implementation that holds state between calls also overrides ``state_dict`` and
``load_state_dict``; a class that a configuration can set has ``Settings``. Use only the random
generator of the call, so that a run can be repeated from its seed.
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from evoprompt.components import Component
from evoprompt.log.corpus import RolloutCorpus
from evoprompt.replay import ReplayBuffer
from evoprompt.support.leads import Lead, SentenceValue
from evoprompt.types import (
    Assignment,
    Candidate,
    CandidateStats,
    Estimate,
    Proposal,
    TaskContext,
    Trajectory,
    Verification,
    VerificationResult,
)


class RolloutFn(Protocol):
    """Function that rolls out the current policy."""

    def __call__(self, assignments: Sequence[Assignment], /) -> Sequence[Trajectory]:
        """Roll out each assignment under the current weights, sampled as in training.

        Args:
            assignments: pairs of a question and a candidate, with the number of rollouts of each.

        Returns:
            ``rollouts`` trajectories per assignment, in any order. A rollout that failed has
            ``reward=None``.
        """


class Population(Component, ABC):
    """Population of candidates, with their lineage."""

    role = "population"

    @property
    @abstractmethod
    def members(self) -> Sequence[Candidate]:
        """Return the members, oldest first; never empty once a seed was added."""

    def __contains__(self, candidate_id: object, /) -> bool:
        """Return whether a candidate with this id is a member."""
        return any(member.id == candidate_id for member in self.members)

    @abstractmethod
    def add(self, candidate: Candidate) -> None:
        """Add a candidate to the population.

        Raises:
            ValueError: the id is in use, or a parent of the candidate was never a member.
        """

    @abstractmethod
    def remove(self, ids: Collection[str]) -> None:
        """Remove members from the population; keep their lineage.

        Raises:
            ValueError: an id is not that of a member, or no member would be left.
        """

    @abstractmethod
    def ancestors(self, candidate_id: str) -> Sequence[Candidate]:
        """Return all ancestors of a candidate, pruned ones included, nearest first."""


class Selector(Component, ABC):
    """Selector of candidates: the sampler, the survivor selector or the parent selector."""

    role = "selector"

    @abstractmethod
    def select(
        self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
    ) -> Sequence[CandidateStats]:
        """Select exactly ``k`` of ``candidate_stats``; a candidate may be selected repeatedly.

        Survivors and parents have to be distinct: the engine removes repetitions and selects again
        among the remaining candidates.

        Args:
            candidate_stats: the candidates, never empty, with finite weights.
            k: number of selections, at least 0.
            rng: the engine's generator.
        """

    def probabilities(self, candidate_stats: Sequence[CandidateStats]) -> Sequence[float]:
        """Return the probability of each candidate to be drawn next: non-negative, of sum 1.

        Empty, as by default, if the selector has no fixed probabilities.
        """
        return ()


class Attributor(Component, ABC):
    """Estimator of the weight of each candidate from rewards of trajectories (paper Eq. 6)."""

    role = "attributor"
    has_standard_errors: ClassVar[bool] = True
    """Whether ``stats`` has finite standard errors, which verification in training needs."""

    @abstractmethod
    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Record the rewards of the trajectories of a step; ignore those without a reward."""

    @abstractmethod
    def stats(self, candidate: Candidate) -> CandidateStats:
        """Return the estimates for a candidate, with ``groups == 0`` if it was never observed."""

    @abstractmethod
    def reset(self, priors: Mapping[str, Sequence[float]]) -> None:
        """Forget everything, and start the named candidates from prior rewards.

        Args:
            priors: prior rewards by candidate id. With an empty mapping all weights are reset to
                0, as in the paper.
        """

    @abstractmethod
    def forget(self, ids: Collection[str]) -> None:
        """Drop the estimates of candidates that are no longer used, observed before or not."""

    def lead(self, candidate: Candidate, other: Candidate) -> Lead:
        """Return the estimated lead of ``candidate`` over ``other``, with its standard error.

        The default is the difference of the two weights, with independent errors. Override it in
        an attributor that estimates candidates together, or whose errors are about a common mean.
        The standard error is infinite if no reward compares the two, and 0 if all rewards that
        compare them are equal.
        """
        mine, theirs = self.stats(candidate), self.stats(other)
        return Lead(mine.weight - theirs.weight, math.hypot(mine.stderr, theirs.stderr))

    def sentences(self) -> Sequence[SentenceValue]:
        """Return the values of sentences, the clearest first; empty by default."""
        return ()

    def observe_verification(
        self,
        step: int,
        trajectories: Sequence[Trajectory],
        priors: Mapping[str, Sequence[float]],
    ) -> None:
        """Record the rewards of members in a verification; not called under ``reset="zero"``.

        Questions of a verification are replayed questions, which are harder than usual. The default
        resets the attributor to ``priors``. An attributor that can compare these rollouts with
        rollouts of training keeps its estimates.

        Args:
            step: the engine step before the verification.
            trajectories: trajectories of the verification.
            priors: rewards of each measured member by its id: those of the verification, or its
                previous weight, ``min_groups`` times.
        """
        self.reset(priors)


@dataclass(frozen=True, slots=True)
class ProposalRequest:
    """Information for a proposer.

    Attributes:
        count: number of proposals, at least 1; a proposer may return fewer or more.
        parents: candidates to improve, best first; never empty.
        failures: trajectories of low reward, most relevant first, of different questions as far as
            possible; more than a proposer has to read. May be empty at the start.
        history: every candidate measured so far with its last weight, oldest first.
        rng: the engine's generator; the only source of randomness allowed.
        step: the engine step.
        required: substrings that every proposal must keep, such as protocol tags.
        component: name of the component to rewrite; empty leaves the choice to the proposer.
        failures_per_request: number of failures to read, for proposers without a setting for it.
        successes: successful trajectories on questions of ``failures``, where there are any.
        members: the members of the population, parents included.
        rejections: reasons why texts of the last request were rejected by screening.
        max_tokens: most tokens of all texts of a proposal; None if unknown.
        setting: context of the instruction, such as prompt, tools and reward.
        sentences: values of sentences, as far as the attributor estimates them, clearest first.
        corpus: the rollouts with text that are in memory.
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
    members: Sequence[CandidateStats] = ()
    rejections: Sequence[str] = ()
    max_tokens: int | None = None
    setting: TaskContext = field(default_factory=TaskContext)
    sentences: Sequence[SentenceValue] = ()
    corpus: RolloutCorpus = field(default_factory=RolloutCorpus)


class Proposer(Component, ABC):
    """Writer of new instructions from parents, failures and history (paper §3.2, App. E)."""

    role = "proposer"
    slow: ClassVar[bool] = False
    """Whether a proposal may take seconds, as with a service. A slow proposer runs in the
    background unless a configuration sets otherwise."""
    is_waited_for: bool = False
    """Whether an attached trainer waits for ``propose`` however long it takes. A configuration sets
    it by ``background: false``, for a training that is to be repeatable."""

    @abstractmethod
    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Return about ``request.count`` proposals, or an empty list.

        Proposals may be bad: screening and the verifier follow. If the method raises, the
        generation ends without an admission, and training goes on. Where a trainer is attached, the
        engine calls the method of a proposer without ``anticipate`` in a thread: training waits for
        two seconds at most, and the proposals are used when they come.
        """

    def feedback(self, results: Sequence[VerificationResult]) -> None:
        """Receive the results of a verification round.

        ``VerificationResult.candidate.proposer`` is the name of the proposer of a candidate.
        """

    @property
    def name(self) -> str:
        """Return the name with which proposals are signed, by default that of the class."""
        return type(self).__name__

    @property
    def failures_caught(self) -> int:
        """Return the number of errors of other proposers that this proposer caught in this run.

        The number is part of the state, like every total. The engine counts errors that it catches
        itself.
        """
        return 0

    def estimate(self, generations: int, count: int, parents: int) -> Estimate:
        """Estimate the cost of ``generations`` requests for ``count`` proposals each."""
        return Estimate(0, 0, 0.0)

    def estimate_request(self, request: ProposalRequest, is_bound: bool = False) -> Estimate:
        """Estimate the cost of one request, by default without a look at its texts.

        Args:
            request: a typical request.
            is_bound: whether to return the most that such a request costs, with excerpts and
                answers at their limits.
        """
        return self.estimate(1, request.count, len(request.parents))

    def anticipate(self, request: ProposalRequest) -> None:
        """Begin to propose for ``request`` in the background; return immediately.

        Override this method together with ``is_ready``, so that training does not wait. A pending
        answer to an earlier request is dropped. The engine calls it from ``tell``, when the last
        candidate on trial is decided, or one step before a generation with extra rollouts is due.
        When evolution is due and ``is_ready`` is False, an attached trainer goes on, the log has a
        notice, and the engine checks again after every step. Without a trainer the engine calls
        ``propose`` anyway, which then waits for the answer.
        """

    @property
    def can_anticipate(self) -> bool:
        """Return whether the class overrides ``anticipate``."""
        return type(self).anticipate is not Proposer.anticipate

    @property
    def is_ready(self) -> bool:
        """Return whether ``propose`` would return or raise immediately, with a new answer."""
        return True


@dataclass(frozen=True, slots=True)
class TrainingScale:
    """Size of a training, as far as it is known.

    Attributes:
        questions: questions of a step; 0 before the first step.
        rollouts: rollouts of each question in a step; 0 before the first step.
        candidates: candidates of each question.
        rollouts_left: rollouts that the budget has left; None where there is no budget.
        rewards: the least and the greatest reward: those of the configuration, or beyond them
            where there were some.
        mean_reward: mean reward of the last steps; None before the first.
    """

    questions: int = 0
    rollouts: int = 0
    candidates: int = 1
    rollouts_left: int | None = None
    rewards: tuple[float, float] = (0.0, 1.0)
    mean_reward: float | None = None


@dataclass(frozen=True, slots=True)
class VerificationRequest:
    """Information for a verifier, and the rollout function.

    Attributes:
        proposed: candidates to decide: new candidates, or candidates on trial; may be empty.
        parents: parents of the candidates, best first; the same in all rounds of a generation.
        replay: questions to verify on, with their past rewards; may be empty.
        rollout: rolls out assignments; may be called several times, preferably in batches. The ids
            of the assignments must be unique within a round. None after a training step, where
            candidates on trial are decided by training rollouts alone.
        slots: free places, at least 0.
        rng: the engine's generator; the only source of randomness allowed.
        earlier: verifications of the earlier rounds of this generation, oldest first.
        rounds_left: most rounds that may follow this one in the generation.
        estimator: the engine's attributor, which estimates leads.
        incumbent: the best candidate so far, which is rolled out beside the candidates on trial;
            None if it is unknown.
        max_rollouts: extra rollouts that the round should not exceed, so that all rounds of a
            generation take a fifth of the training rollouts at most; None for no limit.
        trials: results so far of the candidates on trial among ``proposed``: the mean and the
            number of their training rewards.
        scale: size of the training.
        group: rollouts of a question that the trainer's reward code is given together. An
            assignment should have as many, or a multiple; else it gets as many more.
    """

    proposed: Sequence[Candidate]
    parents: Sequence[CandidateStats]
    replay: ReplayBuffer
    rollout: RolloutFn | None
    slots: int
    rng: random.Random
    earlier: Sequence[Verification] = ()
    rounds_left: int = 0
    estimator: Attributor | None = None
    incumbent: Candidate | None = None
    max_rollouts: int | None = None
    trials: Sequence[VerificationResult] = ()
    scale: TrainingScale = TrainingScale()
    group: int = 1


class Verifier(Component, ABC):
    """Verifier that decides which proposed candidates join the population.

    A verifier decides with extra rollouts of the current policy, or over several training steps.
    In the latter case it has a ``share`` and returns results that are on trial. The engine gives
    these candidates that share of each question's rollouts, and calls the verifier again after
    each step until all are decided.

    Attributes:
        share: share of the training rollouts for candidates on trial, below 1; 0 if the verifier
            decides immediately.
    """

    role = "verifier"
    share: float = 0.0

    @abstractmethod
    def verify(self, request: VerificationRequest) -> Verification:
        """Return one result per candidate, at most ``request.slots`` of them admitted.

        Only a verifier with a ``share`` may leave candidates on trial, for at most
        :meth:`max_trial_rollouts` each.
        """

    def max_trial_rollouts(self, scale: TrainingScale) -> int:
        """Return the training rollouts after which an undecided candidate is rejected.

        The engine rejects it with a notice. The default lets the slowest decisions of
        :class:`~evoprompt.verifiers.InTraining` end by themselves.
        """
        return 5_000

    def most_rollouts(self, proposed: int, parents: int) -> int | None:
        """Return the most extra rollouts of a round; None, as by default, if unknown.

        The dry run reports the number.

        Args:
            proposed: number of candidates of the round.
            parents: number of their parents.
        """
        return None

    def proposals(self, free_places: int, rounds: int, scale: TrainingScale) -> int:
        """Return the number of proposals to request, by default two for each free place.

        Verification rejects half of them. With a single round the number is three for each place:
        then no more is lost than by waiting for up to five rounds (simulated, docs/selection.md).

        Args:
            free_places: free places.
            rounds: most rounds of the generation.
            scale: size of the training.
        """
        return free_places * (3 if rounds == 1 else 2)
