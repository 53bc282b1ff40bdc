"""The suites of all roles pass what is right and name what is wrong."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from failing_checks import failing
from pydantic import JsonValue

from evoprompt import Proposer, Selector
from evoprompt.agents import Episode
from evoprompt.agents.tasks import MainMetric, Score
from evoprompt.attributors import Adjusted, WindowMean
from evoprompt.experiments.testing import Additions, TaskSuite
from evoprompt.populations import SteadyPopulation
from evoprompt.proposers.bank import SentenceBank
from evoprompt.roles import ProposalRequest, VerificationRequest
from evoprompt.selectors import Deap, Softmax
from evoprompt.support.leads import Lead
from evoprompt.testing import (
    AttributorSuite,
    PopulationSuite,
    ProposerSuite,
    SelectorSuite,
    Suite,
    VerifierSuite,
)
from evoprompt.types import (
    ADMITTED,
    ON_TRIAL,
    REJECTED,
    Assignment,
    Candidate,
    CandidateStats,
    Decision,
    Proposal,
    Question,
    Trajectory,
    Verification,
    VerificationResult,
)
from evoprompt.verifiers import InTraining, ReplayTopN

Given = Sequence[CandidateStats]

CALIBRATED = "has standard errors of the size of its errors"
ALIKE = "answers alike however often it was used before"
REPEATS = "repeats itself from the seed"
HANDED_IN = "draws only from the generator handed in"
COMPONENTS = "returns proposals with the components of the parent"


class Appending(Proposer):
    """Appends a sentence that it draws to the best parent."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        parent = request.parents[0].candidate
        drawn = request.rng.sample(range(100), request.count)
        return [Proposal.of(f"{parent.text} Rule {number}.", parent) for number in drawn]


# ----------------------------------------------------------------------------------- attributors


class Punishing(WindowMean):
    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        super().observe(step, [replace(t, reward=t.reward or 0.0) for t in trajectories])


class Overwriting(WindowMean):
    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        self.reset({})
        super().observe(step, trajectories)


class Hasty(WindowMean):
    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        first = {t.candidate.id: t for t in reversed(trajectories)}
        super().observe(step, list(first.values()))


class Contrary(WindowMean):
    def stats(self, candidate: Candidate) -> CandidateStats:
        found = super().stats(candidate)
        return replace(found, weight=-found.weight)


class Undecided(WindowMean):
    def stats(self, candidate: Candidate) -> CandidateStats:
        found = super().stats(candidate)
        return found if found.groups else replace(found, weight=math.nan)


class Nostalgic(WindowMean):
    def reset(self, priors: Mapping[str, Sequence[float]]) -> None: ...


class Resentful(WindowMean):
    def forget(self, ids: Collection[str]) -> None: ...


class Amnesic(WindowMean):
    def state_dict(self) -> dict[str, JsonValue]:
        return {"accounts": {}}


class OneSided(WindowMean):
    def lead(self, candidate: Candidate, other: Candidate) -> Lead:
        lead = super().lead(candidate, other)
        return replace(lead, value=abs(lead.value))


class Boastful(WindowMean):
    def lead(self, candidate: Candidate, other: Candidate) -> Lead:
        return replace(super().lead(candidate, other), stderr=0.01)


class Selfless(WindowMean):
    def lead(self, candidate: Candidate, other: Candidate) -> Lead:
        lead = super().lead(candidate, other)
        return replace(lead, value=lead.value + 0.1 * (candidate.id <= other.id))


class Unsure(WindowMean):
    def stats(self, candidate: Candidate) -> CandidateStats:
        return replace(super().stats(candidate), stderr=math.inf)


class Candid(Unsure):
    has_standard_errors = False


class TooSure(Adjusted):
    """Has standard errors of a tenth of the truth, of weights and leads."""

    def stats(self, candidate: Candidate) -> CandidateStats:
        stats = super().stats(candidate)
        return replace(stats, stderr=stats.stderr / 10)

    def lead(self, candidate: Candidate, other: Candidate) -> Lead:
        lead = super().lead(candidate, other)
        return replace(lead, stderr=lead.stderr / 10)


class SureOfLeads(Adjusted):
    def lead(self, candidate: Candidate, other: Candidate) -> Lead:
        lead = super().lead(candidate, other)
        return replace(lead, stderr=lead.stderr / 10)


class SureOfWeights(WindowMean):
    def stats(self, candidate: Candidate) -> CandidateStats:
        stats = super().stats(candidate)
        return replace(stats, stderr=stats.stderr / 10)


class Triple(Adjusted):
    """Counts every group three times."""

    def stats(self, candidate: Candidate) -> CandidateStats:
        stats = super().stats(candidate)
        return replace(stats, groups=3 * stats.groups)


class CountsRollouts(WindowMean):
    """Counts every rollout as a group."""

    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        renamed = [
            replace(t, assignment=replace(t.assignment, id=f"{t.assignment.id}/{t.rollout}"))
            for t in trajectories
        ]
        super().observe(step, renamed)


# ------------------------------------------------------------------------------------- selectors


class Short(Softmax):
    def select(self, candidate_stats: Given, k: int, rng: random.Random) -> Given:
        return list(candidate_stats)[:k]


class Naive(Selector):
    """Divides by the sum of the weights, which may be 0."""

    def select(self, candidate_stats: Given, k: int, rng: random.Random) -> Given:
        total = sum(stats.weight for stats in candidate_stats)
        return rng.choices(candidate_stats, [one.weight / total for one in candidate_stats], k=k)


class Worldly(Softmax):
    """Draws from the global generator."""

    def select(self, candidate_stats: Given, k: int, rng: random.Random) -> Given:
        return random.choices(candidate_stats, k=k)


class Sorting(Softmax):
    def select(self, candidate_stats: Given, k: int, rng: random.Random) -> Given:
        assert isinstance(candidate_stats, list)
        candidate_stats.sort(key=lambda stats: stats.weight)
        return super().select(candidate_stats, k, rng)


class Lying(Softmax):
    def probabilities(self, candidate_stats: Given) -> list[float]:
        return [1 / len(candidate_stats)] * len(candidate_stats)

    def select(self, candidate_stats: Given, k: int, rng: random.Random) -> Given:
        return Softmax(0.2).select(candidate_stats, k, rng)


# ------------------------------------------------------------------------------------- proposers


class Texts(Proposer):
    def propose(self, request: ProposalRequest) -> Sequence[str]:  # type: ignore[override]
        return ["Be brief."]


class Mute(Proposer):
    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        return []


class Blunt(Proposer):
    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        return [Proposal.of("Be brief.", request.parents[0].candidate)]


class Copying(Proposer):
    """Appends a question of the failures with its answer to the best parent."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        parent = request.parents[0].candidate
        examples = [
            f"Example: {failure.question.text} The sum is {failure.question.answers[0]}."
            for failure in request.failures
        ] or [f"Rule {request.rng.randrange(100)}."]
        return [Proposal.of(f"{parent.text} {text}", parent) for text in examples[: request.count]]


class Adopting(Appending):
    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        return [replace(one, parents=("c99",)) for one in super().propose(request)]


class Flooding(Appending):
    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        return super().propose(replace(request, count=5 * request.count))


class Emptying(Appending):
    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        assert isinstance(request.failures, list)
        request.failures.clear()
        return super().propose(request)


class Global(Appending):
    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        return super().propose(replace(request, rng=random.Random(random.random())))


class Unseeded(Appending):
    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        return super().propose(replace(request, rng=random.Random()))


class Counting(Appending):
    calls = 0

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        self.calls += 1
        parent = request.parents[0].candidate
        return [Proposal.of(f"{parent.text} Call {self.calls}.", parent)]


class Dreaming(Appending):
    """Is ready at once, with nothing."""

    def anticipate(self, request: ProposalRequest) -> None:
        self.propose = lambda request: []  # type: ignore[method-assign]


class Brooding(Appending):
    is_ready = False

    def anticipate(self, request: ProposalRequest) -> None: ...


class Choking(Appending):
    def feedback(self, results: Sequence[VerificationResult]) -> None:
        assert all(result.scored for result in results)


class Vague(Appending):
    def metrics(self) -> Mapping[str, float]:
        return {"lm/usd": math.nan}


class Freely(ProposerSuite):
    repeatable = False


class Impatient(ProposerSuite):
    patience = 0.05


# ------------------------------------------------------------------------- populations, verifiers


class Mortal(SteadyPopulation):
    def remove(self, ids: Collection[str]) -> None:
        for candidate_id in ids:
            self._members.pop(candidate_id, None)


class Open(SteadyPopulation):
    def add(self, candidate: Candidate) -> None:
        self._members[candidate.id] = self._candidates[candidate.id] = candidate


class Forgetful(SteadyPopulation):
    def ancestors(self, candidate_id: str) -> Sequence[Candidate]:
        return [self._candidates[parent] for parent in self._candidates[candidate_id].parents]


class Reversed(SteadyPopulation):
    @property
    def members(self) -> Sequence[Candidate]:
        return tuple(reversed(self._members.values()))


class Training(ReplayTopN):
    def verify(self, request: VerificationRequest) -> Verification:
        def relabelled(assignments: Sequence[Assignment], /) -> Sequence[Trajectory]:
            assert request.rollout is not None
            return request.rollout([replace(one, purpose="train") for one in assignments])

        return super().verify(replace(request, rollout=relabelled))


def spoilt(spoil: Callable[[Verification], Verification]) -> type[ReplayTopN]:
    """A verifier whose findings are spoilt."""

    class Spoilt(ReplayTopN):
        def verify(self, request: VerificationRequest) -> Verification:
            return spoil(super().verify(request))

    return Spoilt


def all_decided(found: Verification, decision: Decision) -> Verification:
    return replace(found, results=tuple(replace(one, decision=decision) for one in found.results))


class Endless(InTraining):
    def verify(self, request: VerificationRequest) -> Verification:
        found = super().verify(request)
        results = [r if r.is_admitted else replace(r, decision=ON_TRIAL) for r in found.results]
        return replace(found, results=tuple(results))


class Rash(InTraining):
    def verify(self, request: VerificationRequest) -> Verification:
        found = super().verify(request)
        results = [replace(r, decision=REJECTED) if r.is_on_trial else r for r in found.results]
        return replace(found, results=tuple(results))


class Generous(InTraining):
    def verify(self, request: VerificationRequest) -> Verification:
        found = super().verify(request)
        return replace(found, results=tuple(replace(r, decision=ADMITTED) for r in found.results))


class Losing(InTraining):
    def verify(self, request: VerificationRequest) -> Verification:
        found = super().verify(request)
        return replace(found, results=tuple(r for r in found.results if r.is_on_trial))


class Overdrawn(InTraining):
    def __init__(self) -> None:
        super().__init__()
        self.share = 1.0


def failed_are_zero(found: Verification) -> Verification:
    results = []
    for result in found.results:
        own = [t for t in found.trajectories if t.candidate.id == result.candidate.id]
        mean = sum(t.reward or 0.0 for t in own) / len(own) if own else None
        results.append(replace(result, mean=mean, scored=len(own)))
    results.sort(key=lambda result: -(result.mean or 0.0))
    return replace(found, results=tuple(results))


# ----------------------------------------------------------------------------------------- tasks


def sample(**attributes: object) -> type[Additions]:
    return type("Odd", (Additions,), attributes)


class Fragile(Additions):
    def diagnose(self, trajectory: Trajectory) -> Sequence[str]:
        return [trajectory.turns[0].action]


class Untested(Additions):
    def questions(self, split: str) -> Sequence[Question]:
        return [] if split == "test" else super().questions(split)


class Unmeasured(Additions):
    def score(self, episode: Episode, question: Question) -> Score:
        return Score(1.0)


REJECTS = "admits a clear lead after training and rejects a clear lag"
FITS = "has a bank that fits together"
TAGS = Additions.required
SEEDS = "starts from instructions that hold what is required"


@pytest.mark.parametrize(
    ("suite", "wrong", "found"),
    [
        (AttributorSuite, Punishing, {"ignores trajectories without a reward"}),
        (AttributorSuite, Overwriting, {"does not depend on how a step is split"}),
        (AttributorSuite, Hasty, {"does not depend on the order within a step"}),
        (AttributorSuite, Contrary, {"prefers the higher reward"}),
        (AttributorSuite, Undecided, {"knows nothing of a candidate without rollouts"}),
        (AttributorSuite, Nostalgic, {"starts anew when reset"}),
        (AttributorSuite, Nostalgic, {"starts from the rewards of a reset"}),
        (AttributorSuite, Resentful, {"forgets the named candidates"}),
        (AttributorSuite, Amnesic, {"continues from a saved state"}),
        (AttributorSuite, OneSided, {"leads have the sign of the difference"}),
        (AttributorSuite, Unsure, {"leads have the sign of the difference"}),
        (AttributorSuite, TooSure, {CALIBRATED}),
        (AttributorSuite, SureOfLeads, {CALIBRATED}),
        (AttributorSuite, SureOfWeights, {CALIBRATED}),
        (AttributorSuite, Triple, {"counts an assignment once"}),
        (AttributorSuite, CountsRollouts, {"counts an assignment once"}),
        (AttributorSuite, Boastful, {"leads over itself or over what is unknown show nothing"}),
        (AttributorSuite, Selfless, {"leads over itself or over what is unknown show nothing"}),
        (SelectorSuite, Short, {"chooses exactly k of the given"}),
        (SelectorSuite, Naive, {"chooses exactly k of the given"}),
        (SelectorSuite, Worldly, {HANDED_IN, REPEATS}),
        (SelectorSuite, Sorting, {"changes nothing it is given"}),
        (SelectorSuite, Lying, {"returns probabilities that agree with its choices"}),
        (ProposerSuite, Texts, {COMPONENTS}),
        (ProposerSuite, Mute, {"has an idea when there are failures"}),
        (ProposerSuite, Blunt, {"writes something new that keeps what is required"}),
        (ProposerSuite, Copying, {"copies no question with its answer"}),
        (ProposerSuite, Adopting, {"names parents it was given"}),
        (ProposerSuite, Flooding, {"does not overwhelm"}),
        (ProposerSuite, Emptying, {"changes nothing it is given"}),
        (ProposerSuite, Global, {HANDED_IN, REPEATS, ALIKE}),
        (ProposerSuite, Unseeded, {REPEATS, ALIKE}),
        (ProposerSuite, Counting, {ALIKE}),
        (ProposerSuite, Dreaming, {"proposes what it anticipated"}),
        (Impatient, Brooding, {"proposes what it anticipated"}),
        (ProposerSuite, Choking, {"accepts results"}),
        (ProposerSuite, Vague, {"reports in words and finite numbers"}),
        (PopulationSuite, Mortal, {"never becomes empty", "refuses to remove what is no member"}),
        (PopulationSuite, Open, {"refuses an id that was used"}),
        (PopulationSuite, Open, {"refuses a parent that was never added"}),
        (PopulationSuite, Forgetful, {"knows all ancestors nearest first"}),
        (PopulationSuite, Reversed, {"lists the members oldest first"}),
        (VerifierSuite, Training, {"rolls out only the given candidates and questions"}),
        (VerifierSuite, Endless, {REJECTS}),
        (VerifierSuite, Rash, {"leaves candidates without a rollout on trial"}),
        (VerifierSuite, Generous, {REJECTS}),
        (
            VerifierSuite,
            Generous,
            {"admits at most as many as there are places after training"},
        ),
        (VerifierSuite, Losing, {"gives one result per candidate on trial"}),
        (VerifierSuite, Overdrawn, {"decides immediately or has a share of the training"}),
        (
            VerifierSuite,
            spoilt(lambda found: all_decided(found, ON_TRIAL)),
            {"decides immediately or has a share of the training"},
        ),
        (
            VerifierSuite,
            spoilt(lambda found: replace(found, results=found.results[:-1])),
            {"gives one result per proposed candidate"},
        ),
        (
            VerifierSuite,
            spoilt(lambda found: all_decided(found, ADMITTED)),
            {
                "admits at most as many as there are places",
                "admits no candidate without a reward",
                "admits the best of those it measured",
            },
        ),
        (
            VerifierSuite,
            spoilt(lambda found: all_decided(found, REJECTED)),
            {"admits a candidate that is always right"},
        ),
        (
            VerifierSuite,
            spoilt(lambda found: replace(found, results=found.results[::-1])),
            {"lists the best first"},
        ),
        (
            VerifierSuite,
            spoilt(lambda found: replace(found, trajectories=found.trajectories[1:])),
            {"reports every rollout it spent and no more than announced"},
        ),
        (
            VerifierSuite,
            spoilt(failed_are_zero),
            {"measures the rewards without rollouts that failed"},
        ),
        (TaskSuite, sample(seed_instructions=("Be brief.",)), {SEEDS}),
        (
            TaskSuite,
            sample(main_metric=MainMetric("a", "b\nc")),
            {"names the number it is compared by"},
        ),
        (TaskSuite, sample(bank=SentenceBank({"haste": ("Be quick.",)})), {FITS}),
        (
            TaskSuite,
            sample(bank=SentenceBank({"haste": ("Be quick.",)}, {"x": ("y",)}, fixed=TAGS)),
            {FITS},
        ),
        (TaskSuite, Fragile, {"diagnoses any trajectory"}),
        (TaskSuite, Untested, {"has questions in every split and the same ones again"}),
        (TaskSuite, Unmeasured, {"scores an episode that says nothing"}),
    ],
)
def test_what_is_wrong_fails_the_checks_that_say_so(
    suite: type[Suite[Any]], wrong: type, found: set[str]
) -> None:
    assert found <= failing(suite, wrong)


@pytest.mark.parametrize(
    ("suite", "build"),
    [
        (ProposerSuite, Appending),
        (Freely, Unseeded),
        (AttributorSuite, Candid),
        (VerifierSuite, InTraining),
        *((SelectorSuite, lambda name=name: Deap(name)) for name in ("worst", "random")),
        *((SelectorSuite, lambda t=t: Softmax(t)) for t in (0.01, 100.0)),
    ],
)
def test_what_is_right_passes(suite: type[Suite[Any]], build: Callable[[], object]) -> None:
    assert failing(suite, build) == set()
