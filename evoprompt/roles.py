"""The five roles of the loop, and the one thing it asks of the outside. Read this first.

``engine.ask`` draws members of the *population* for every question with the *sampler*, beside the
candidates on trial. ``engine.tell`` hands the scored trajectories to the *attributor*, asks the
*verifier* about the candidates on trial, and prunes with the *survivor* selector. ``engine.evolve``
picks parents with the *parent* selector, asks the *proposer* for texts, screens them, and hands the
rest to the *verifier*, which decides with extra rollouts or leaves them on trial.

Each role is a base class with one to four methods to write. What :class:`Component` and the roles
have besides does nothing by default; an implementation that holds state between calls also writes
``state_dict`` and ``load_state_dict``, and one that a configuration can set has ``Settings``.
Randomness comes only from the generator handed in, so that a run repeats from its seed.
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from evoprompt.components import Component
from evoprompt.leads import Lead
from evoprompt.replay import ReplayBuffer
from evoprompt.types import (
    Assignment,
    Candidate,
    CandidateStats,
    Estimate,
    Proposal,
    SentenceWorth,
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


class Population(Component, ABC):
    """Who is alive, and who descends from whom."""

    role = "population"

    @property
    @abstractmethod
    def alive(self) -> Sequence[Candidate]:
        """The candidates in use, oldest first; never empty once a seed was added."""

    def __contains__(self, candidate_id: object, /) -> bool:
        """Whether a candidate of this id is alive."""
        return any(one.id == candidate_id for one in self.alive)

    @abstractmethod
    def add(self, candidate: Candidate) -> None:
        """Add ``candidate`` to the population.

        Raises:
            ValueError: its id is in use, or a parent of it was never alive.
        """

    @abstractmethod
    def remove(self, ids: Collection[str]) -> None:
        """Ends the life of the named candidates; their lineage stays known.

        Raises:
            ValueError: one of them is not alive, or none would be left.
        """

    @abstractmethod
    def ancestors(self, candidate_id: str) -> Sequence[Candidate]:
        """All forebears of a candidate, dead ones included, nearest first."""


class Selector(Component, ABC):
    """Chooses candidates, as the sampler, as the survivor selector or as the parent selector."""

    role = "selector"

    @abstractmethod
    def select(
        self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
    ) -> Sequence[CandidateStats]:
        """Returns exactly ``k`` of ``candidate_stats``; the same one may be chosen again.

        Survivors and parents have to be distinct: the engine removes repetitions and
        asks again for the rest. ``candidate_stats`` is never empty; weights are finite; ``k >= 0``.
        """

    def probabilities(self, candidate_stats: Sequence[CandidateStats]) -> Sequence[float]:
        """The chance of each candidate to be drawn next: non-negative, of sum 1.

        Empty, as it is by default, where the selector cannot say.
        """
        return ()


class Attributor(Component, ABC):
    """Turns rewards of trajectories into an importance weight per candidate (paper Eq. 6)."""

    role = "attributor"
    has_standard_errors: ClassVar[bool] = True
    """Whether ``stats`` has finite standard errors, which verification in training needs."""

    @abstractmethod
    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Credits the scored ones of ``trajectories``, all told at engine step ``step``."""

    @abstractmethod
    def stats(self, candidate: Candidate) -> CandidateStats:
        """What is known about ``candidate``; ``groups == 0`` when nothing is."""

    @abstractmethod
    def reset(self, priors: Mapping[str, Sequence[float]]) -> None:
        """Forgets everything, then starts each named candidate from its list of rewards.

        An empty mapping gives the paper's "all weights are reset to 0".
        """

    @abstractmethod
    def forget(self, ids: Collection[str]) -> None:
        """Drops what is known about candidates that no longer live, observed before or not."""

    def lead(self, candidate: Candidate, other: Candidate) -> Lead:
        """Return the estimated lead of ``candidate`` over ``other``, with its standard error.

        By default it is the difference of the two weights, with errors that are independent. An
        attributor that estimates candidates together, or whose errors are about a common mean,
        overrides it. The standard error is infinite where nothing compares the two, and 0 where all
        that compares them is equal.
        """
        mine, theirs = self.stats(candidate), self.stats(other)
        return Lead(mine.weight - theirs.weight, math.hypot(mine.stderr, theirs.stderr))

    def sentences(self) -> Sequence[SentenceWorth]:
        """Return what each sentence adds, the clearest first; empty, as by default, if unknown."""
        return ()

    def observe_verification(
        self,
        step: int,
        trajectories: Sequence[Trajectory],
        priors: Mapping[str, Sequence[float]],
    ) -> None:
        """Takes in what a verification showed of the living; not under ``reset="zero"``.

        Its questions are replayed ones, which are harder than usual. By default the attributor is
        reset to ``priors``; one that can compare those rollouts with those of training keeps what
        it knows.

        Args:
            step: the engine step after which it took place.
            trajectories: of the verification.
            priors: rewards of each living candidate that is known: those of the verification, or
                as many of its old weight as ``min_groups``.
        """
        self.reset(priors)


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
        max_tokens: most tokens of all texts of a proposal; None where unknown.
        setting: what stands around an instruction.
        sentences: what sentences are worth, as far as the attributor says, the clearest first.
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
    sentences: Sequence[SentenceWorth] = ()


class Proposer(Component, ABC):
    """Writes new instructions from parents, failures and history (paper §3.2, App. E)."""

    role = "proposer"
    slow: ClassVar[bool] = False
    """Whether it may keep training waiting, as one that asks a service does.

    Then it proposes in the background unless a configuration says otherwise.
    """

    @abstractmethod
    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Returns up to about ``request.count`` proposals; an empty list when it has no idea.

        Proposals may be bad: screening and the verifier come next. Raising ends the generation
        without an admission; training goes on.
        """

    def feedback(self, results: Sequence[VerificationResult]) -> None:
        """Takes in the results of one verification round; called after each round.

        ``VerificationResult.candidate.proposer`` tells whose offspring each was.
        """

    @property
    def name(self) -> str:
        """How its proposals are signed: that of the class, by default."""
        return type(self).__name__

    @property
    def failures_caught(self) -> int:
        """How often in this run another proposer that it asked raised, and it went on.

        Part of its state, like every total; the engine counts the errors that reach it.
        """
        return 0

    def estimate(self, generations: int, count: int, parents: int) -> Estimate:
        """The cost of ``generations`` requests for ``count`` proposals from ``parents`` parents."""
        return Estimate(0, 0, 0.0)

    def anticipate(self, request: ProposalRequest) -> None:
        """Begin to propose for ``request`` in the background; return immediately.

        Write it, and ``ready``, so that training need not wait. The answer to an earlier request
        that ``propose`` did not return yet is dropped. The engine calls it from ``tell``, when the
        last candidate on trial is decided, or one step before a generation with extra rollouts is
        due. When evolution is due and ``ready`` is False, an attached trainer goes on, the log has
        a notice, and the engine looks again at every following step. Without a trainer the engine
        calls ``propose`` all the same, which then waits for its own answer.
        """

    @property
    def anticipates(self) -> bool:
        """Whether it thinks ahead: it has an ``anticipate`` of its own."""
        return type(self).anticipate is not Proposer.anticipate

    @property
    def ready(self) -> bool:
        """Whether ``propose`` would return, or raise, at once with something new."""
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
    """Everything a verifier may look at and use to decide about candidates.

    Attributes:
        proposed: candidates to decide about: new ones, or those that are on trial; may be empty.
        parents: candidates to improve upon, best first; the same in all rounds of a generation.
        replay: questions to verify on, and how they have gone; may be empty.
        rollout: rolls assignments out; may be called several times, best in batches. The ids of
            the assignments are unique within a round. None after a training step: candidates on
            trial are decided by the rollouts of training alone.
        slots: free places, at least 0.
        rng: the engine's generator; the only source of randomness allowed.
        earlier: what the earlier rounds of this generation have found, oldest first.
        rounds_left: most rounds that may follow this one in the generation.
        estimator: the engine's attributor, which estimates leads.
        incumbent: the best candidate so far, which has rollouts beside those on trial; None where
            the engine does not say.
        max_rollouts: extra rollouts that the round should not exceed, so that all rounds of a
            generation take a fifth of the training rollouts at most; None for no limit.
        trials: what is known of those of ``proposed`` that are on trial, with the mean and the
            number of their rewards in training.
        scale: size of the training.
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


class Verifier(Component, ABC):
    """Decides which proposed candidates join the population.

    It decides with rollouts of its own, made by the current policy, or over several training steps.
    For the latter it has a ``share``, and returns results that are on trial: the engine then gives
    these candidates that share of each question's rollouts, and asks again after each step until
    all are decided.

    Attributes:
        share: share of the training rollouts for candidates on trial, below 1; 0 where all are
            decided immediately.
    """

    role = "verifier"
    share: float = 0.0

    @abstractmethod
    def verify(self, request: VerificationRequest) -> Verification:
        """Return one result per candidate, at most ``request.slots`` of them admitted.

        Only a verifier with a ``share`` may leave some on trial, for :meth:`max_trial_rollouts`
        each at most.
        """

    def max_trial_rollouts(self, scale: TrainingScale) -> int:
        """Return the training rollouts after which an undecided candidate is rejected.

        The engine rejects it with a notice. The default lets the slowest decisions of
        :class:`~evoprompt.verifiers.InTraining` end by themselves.
        """
        return 5_000

    def most_rollouts(self, proposed: int, parents: int) -> int | None:
        """Return the most extra rollouts of a round that tries so many candidates.

        None, as it is by default, where it cannot say; ``--dry-run`` shows it.
        """
        return None

    def proposals(self, places: int, rounds: int, scale: TrainingScale) -> int:
        """Return how many proposals to ask for; by default two for each place.

        Verification rejects half of them. Three are asked for where there is one round: then no
        more is lost than by waiting for up to five rounds (simulated, docs/selection.md).

        Args:
            places: free places.
            rounds: most rounds of the generation.
            scale: size of the training.
        """
        return places * (3 if rounds == 1 else 2)
