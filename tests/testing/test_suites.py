"""Each conformance suite passes what is right and names what is wrong."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import pytest
from pydantic import JsonValue

from evoprompt.agents import Episode
from evoprompt.attributors import WindowMean
from evoprompt.interfaces import ProposalRequest, VerificationRequest
from evoprompt.populations import SteadyPopulation
from evoprompt.proposers.bank import SentenceBank
from evoprompt.selectors import Deap, Softmax
from evoprompt.tasks import Headline, Score
from evoprompt.testing import (
    AttributorSuite,
    PopulationSuite,
    ProposerSuite,
    SampleTask,
    SelectorSuite,
    Suite,
    TaskSuite,
    VerifierSuite,
    run,
)
from evoprompt.types import (
    Assignment,
    Candidate,
    CandidateStats,
    Proposal,
    Question,
    Trajectory,
    Verification,
    VerificationResult,
)
from evoprompt.verifiers import ReplayTopN


def failing(suite: type[Suite[object]], build: Callable[[], object]) -> set[str]:
    """Names of the checks that an implementation fails."""
    checked = type("Checked", (suite,), {"build": lambda self: build()})()
    return {result.name for result in run(checked) if not result.passed}


class TestSelectors:
    @pytest.mark.parametrize(
        "operator", ["best", "worst", "random", "tournament", "roulette", "lexicase"]
    )
    def test_deap_s_operators_pass(self, operator: str) -> None:
        arguments = {"tournsize": 2} if operator == "tournament" else None
        assert failing(SelectorSuite, lambda: Deap(operator, arguments)) == set()

    @pytest.mark.parametrize("temperature", [0.01, 0.2, 100.0])
    def test_softmax_passes_at_any_temperature(self, temperature: float) -> None:
        assert failing(SelectorSuite, lambda: Softmax(temperature)) == set()

    def test_one_that_returns_too_few(self) -> None:
        class Short(Softmax):
            def select(
                self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
            ) -> Sequence[CandidateStats]:
                return list(candidate_stats)[:k]

        assert "chooses exactly k of the given" in failing(SelectorSuite, Short)

    def test_one_that_makes_standings_up(self) -> None:
        class Copying(Softmax):
            def select(
                self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
            ) -> Sequence[CandidateStats]:
                return [replace(one, weight=9.0) for one in super().select(candidate_stats, k, rng)]

        assert "chooses exactly k of the given" in failing(SelectorSuite, Copying)

    def test_one_that_ignores_k_0(self) -> None:
        class Eager(Softmax):
            def select(
                self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
            ) -> Sequence[CandidateStats]:
                return super().select(candidate_stats, max(k, 1), rng)

        assert "chooses nobody for k 0" in failing(SelectorSuite, Eager)

    def test_one_that_divides_by_the_sum_of_weights(self) -> None:
        class Naive:
            def select(
                self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
            ) -> Sequence[CandidateStats]:
                total = sum(stats.weight for stats in candidate_stats)
                return rng.choices(
                    candidate_stats, [one.weight / total for one in candidate_stats], k=k
                )

        assert failing(SelectorSuite, Naive) == {
            "copes with all finite weights",
            "copes with candidates that were never measured",
            "repeats itself from the seed",
        }

    def test_one_that_draws_from_the_global_generator(self) -> None:
        class Global(Softmax):
            def select(
                self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
            ) -> Sequence[CandidateStats]:
                return random.choices(candidate_stats, k=k)

        assert {
            "draws only from the generator handed in",
            "repeats itself from the seed",
        } <= failing(SelectorSuite, Global)

    def test_one_that_sorts_what_it_is_given(self) -> None:
        class Sorting(Softmax):
            def select(
                self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
            ) -> Sequence[CandidateStats]:
                assert isinstance(candidate_stats, list)
                candidate_stats.sort(key=lambda stats: stats.weight)
                return super().select(candidate_stats, k, rng)

        assert "changes nothing it is given" in failing(SelectorSuite, Sorting)

    def test_one_whose_probabilities_are_not_those_of_its_draws(self) -> None:
        class Lying(Softmax):
            def probabilities(self, candidate_stats: Sequence[CandidateStats]) -> list[float]:
                return [1 / len(candidate_stats)] * len(candidate_stats)

            def select(
                self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
            ) -> Sequence[CandidateStats]:
                return Softmax(0.2).select(candidate_stats, k, rng)

        assert failing(SelectorSuite, Lying) == {"says probabilities that agree with its choices"}


class TestAttributors:
    def test_window_mean_passes(self) -> None:
        assert failing(AttributorSuite, WindowMean) == set()

    def test_one_that_scores_failed_rollouts_as_zero(self) -> None:
        class Punishing(WindowMean):
            def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
                super().observe(step, [replace(t, reward=t.reward or 0.0) for t in trajectories])

        assert "ignores trajectories without a reward" in failing(AttributorSuite, Punishing)

    def test_one_that_keeps_only_the_last_call_of_a_step(self) -> None:
        class Overwriting(WindowMean):
            def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
                self.reset({})
                super().observe(step, trajectories)

        assert "does not depend on how a step is split" in failing(AttributorSuite, Overwriting)

    def test_one_that_keeps_only_the_first_reward(self) -> None:
        class Hasty(WindowMean):
            def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
                first = {t.candidate.id: t for t in reversed(trajectories)}
                super().observe(step, list(first.values()))

        assert "does not depend on the order within a step" in failing(AttributorSuite, Hasty)

    def test_one_that_turns_rewards_round(self) -> None:
        class Contrary(WindowMean):
            def stats(self, candidate: Candidate) -> CandidateStats:
                found = super().stats(candidate)
                return replace(found, weight=-found.weight)

        assert "prefers the higher reward" in failing(AttributorSuite, Contrary)

    def test_one_that_keeps_its_memory_when_reset(self) -> None:
        class Nostalgic(WindowMean):
            def reset(self, priors: Mapping[str, Sequence[float]]) -> None: ...

        assert failing(AttributorSuite, Nostalgic) == {
            "starts anew when reset",
            "starts from the rewards of a reset",
        }

    def test_one_that_does_not_forget(self) -> None:
        class Resentful(WindowMean):
            def forget(self, ids: Collection[str]) -> None: ...

        assert failing(AttributorSuite, Resentful) == {"forgets whom it is told to"}

    def test_one_that_says_nan_of_the_unknown(self) -> None:
        class Undecided(WindowMean):
            def stats(self, candidate: Candidate) -> CandidateStats:
                found = super().stats(candidate)
                return found if found.groups else replace(found, weight=math.nan)

        assert "knows nothing of a candidate without rollouts" in failing(
            AttributorSuite, Undecided
        )

    def test_one_that_loses_its_state(self) -> None:
        class Amnesic(WindowMean):
            def state_dict(self) -> dict[str, JsonValue]:
                return {"accounts": {}}

        assert failing(AttributorSuite, Amnesic) == {"continues from a saved state"}


class TestPopulations:
    def test_steady_passes(self) -> None:
        assert failing(PopulationSuite, SteadyPopulation) == set()

    def test_one_that_can_become_empty(self) -> None:
        class Mortal(SteadyPopulation):
            def remove(self, ids: Collection[str]) -> None:
                for candidate_id in ids:
                    self._alive.pop(candidate_id, None)

        assert failing(PopulationSuite, Mortal) == {
            "never becomes empty",
            "refuses to remove who is not alive",
        }

    def test_one_that_takes_anybody(self) -> None:
        class Open(SteadyPopulation):
            def add(self, candidate: Candidate) -> None:
                self._alive[candidate.id] = self._ever[candidate.id] = candidate

        assert failing(PopulationSuite, Open) == {
            "refuses an id that was used",
            "refuses a parent that never lived",
            "continues from a saved state",
        }

    def test_one_that_knows_only_parents(self) -> None:
        class Forgetful(SteadyPopulation):
            def ancestors(self, candidate_id: str) -> Sequence[Candidate]:
                return [self._ever[parent] for parent in self._ever[candidate_id].parents]

        assert failing(PopulationSuite, Forgetful) == {"knows all ancestors nearest first"}

    def test_one_that_lists_the_youngest_first(self) -> None:
        class Reversed(SteadyPopulation):
            @property
            def alive(self) -> Sequence[Candidate]:
                return tuple(reversed(self._alive.values()))

        assert failing(PopulationSuite, Reversed) == {"lists the living oldest first"}


class Appending:
    """Appends a sentence that it draws to the best parent."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        parent = request.parents[0].candidate
        drawn = request.rng.sample(range(100), request.count)
        return [Proposal.of(f"{parent.text} Rule {number}.", parent) for number in drawn]


class TestProposers:
    def test_the_right_one_passes(self) -> None:
        assert failing(ProposerSuite, Appending) == set()

    def test_one_that_returns_texts(self) -> None:
        class Texts:
            def propose(self, request: ProposalRequest) -> Sequence[str]:
                return ["Be brief."]

        assert "returns proposals with the components of the parent" in failing(
            ProposerSuite, Texts
        )

    def test_one_that_invents_a_component(self) -> None:
        class Inventing(Appending):
            def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
                return [
                    replace(one, components={**one.components, "tool": "x"})
                    for one in super().propose(request)
                ]

        assert failing(ProposerSuite, Inventing) == {
            "returns proposals with the components of the parent"
        }

    def test_one_that_never_has_an_idea(self) -> None:
        class Mute:
            def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
                return []

        assert failing(ProposerSuite, Mute) == {"has an idea when there are failures"}

    def test_one_that_loses_the_tags(self) -> None:
        class Blunt(Appending):
            def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
                return [Proposal.of("Be brief.", request.parents[0].candidate)]

        assert failing(ProposerSuite, Blunt) == {"keeps what is required"}

    def test_one_that_echoes_its_parent(self) -> None:
        class Echo:
            def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
                parent = request.parents[0].candidate
                return [Proposal.of(parent.text, parent)]

        assert failing(ProposerSuite, Echo) == {"proposes something new"}

    def test_one_that_names_a_stranger_as_parent(self) -> None:
        class Adopting(Appending):
            def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
                return [replace(one, parents=("c99",)) for one in super().propose(request)]

        assert failing(ProposerSuite, Adopting) == {"names parents it was given"}

    def test_one_that_floods(self) -> None:
        class Flooding(Appending):
            def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
                return super().propose(replace(request, count=5 * request.count))

        assert failing(ProposerSuite, Flooding) == {"does not overwhelm"}

    def test_one_that_empties_the_failures(self) -> None:
        class Emptying(Appending):
            def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
                assert isinstance(request.failures, list)
                request.failures.clear()
                return super().propose(request)

        assert failing(ProposerSuite, Emptying) == {"changes nothing it is given"}

    def test_one_that_needs_a_failure(self) -> None:
        class Demanding(Appending):
            def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
                assert request.failures[0].reward == 0.0
                return super().propose(request)

        found = failing(ProposerSuite, Demanding)
        assert "returns proposals with the components of the parent" in found

    def test_one_that_draws_from_the_global_generator(self) -> None:
        class Global(Appending):
            def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
                return super().propose(replace(request, rng=random.Random(random.random())))

        assert failing(ProposerSuite, Global) == {
            "draws only from the generator handed in",
            "proposes alike however often it proposed before",
            "repeats itself from the seed",
        }

    def test_one_that_draws_from_nowhere_need_not_repeat_itself_if_it_asks_an_lm(self) -> None:
        class Unseeded(Appending):
            def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
                return super().propose(replace(request, rng=random.Random()))

        assert failing(ProposerSuite, Unseeded) == {
            "proposes alike however often it proposed before",
            "repeats itself from the seed",
        }

        class Freely(ProposerSuite):
            repeatable = False

        assert failing(Freely, Unseeded) == set()

    def test_one_that_loses_its_state(self) -> None:
        class Counting(Appending):
            def __init__(self) -> None:
                self.calls = 0

            def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
                self.calls += 1
                parent = request.parents[0].candidate
                return [Proposal.of(f"{parent.text} Call {self.calls}.", parent)]

            def state_dict(self) -> dict[str, JsonValue]:
                return {}

            def load_state_dict(self, state: Mapping[str, JsonValue]) -> None: ...

        assert failing(ProposerSuite, Counting) == {
            "continues from a saved state",
            "proposes alike however often it proposed before",
        }

    def test_one_that_thinks_ahead_but_never_answers(self) -> None:
        class Dreaming(Appending):
            ready = True

            def anticipate(self, request: ProposalRequest) -> None:
                self.propose = lambda request: []  # type: ignore[method-assign]

        assert failing(ProposerSuite, Dreaming) == {"proposes what it thought ahead"}

    def test_one_that_is_never_ready(self) -> None:
        class Brooding(Appending):
            ready = False

            def anticipate(self, request: ProposalRequest) -> None: ...

        class Impatient(ProposerSuite):
            patience = 0.05

        assert failing(Impatient, Brooding) == {"proposes what it thought ahead"}

    def test_one_that_chokes_on_an_unscored_verdict(self) -> None:
        class Choking(Appending):
            def feedback(self, results: Sequence[VerificationResult]) -> None:
                assert all(result.scored for result in results)

        assert failing(ProposerSuite, Choking) == {"takes in results"}

    def test_one_that_reports_nan(self) -> None:
        class Vague(Appending):
            def notices(self) -> Sequence[str]:
                return []

            def metrics(self) -> Mapping[str, float]:
                return {"lm/usd": math.nan}

        assert failing(ProposerSuite, Vague) == {"reports in words and finite numbers"}


class Faulty(ReplayTopN):
    """A verifier whose findings a test spoils."""

    spoil: Callable[[Verification], Verification]

    def verify(self, request: VerificationRequest) -> Verification:
        found = super().verify(request)
        return type(self).spoil(found)


def spoilt(spoil: Callable[[Verification], Verification]) -> set[str]:
    return failing(VerifierSuite, type("Spoilt", (Faulty,), {"spoil": staticmethod(spoil)}))


class TestVerifiers:
    @pytest.mark.parametrize("accept", ["top", "not-worse"])
    def test_replay_top_n_passes(self, accept: Literal["top", "not-worse"]) -> None:
        assert failing(VerifierSuite, lambda: ReplayTopN(16, accept)) == set()

    def test_one_that_drops_a_verdict(self) -> None:
        found = spoilt(lambda found: replace(found, results=found.results[:-1]))
        assert "gives one result per proposed candidate" in found

    def test_one_that_admits_everybody(self) -> None:
        found = spoilt(
            lambda found: replace(
                found, results=tuple(replace(one, admitted=True) for one in found.results)
            )
        )
        assert {
            "admits at most as many as there are places",
            "admits nobody it tried in vain to measure",
        } <= found

    def test_one_that_admits_nobody(self) -> None:
        found = spoilt(
            lambda found: replace(
                found, results=tuple(replace(one, admitted=False) for one in found.results)
            )
        )
        assert found == {"admits a candidate that is always right"}

    def test_one_that_lists_the_worst_first(self) -> None:
        found = spoilt(lambda found: replace(found, results=found.results[::-1]))
        assert found == {"lists the best first"}

    def test_one_that_hides_rollouts(self) -> None:
        found = spoilt(lambda found: replace(found, trajectories=found.trajectories[1:]))
        assert found == {"reports every rollout it spent"}

    def test_one_that_counts_failed_rollouts_as_zero(self) -> None:
        def recount(found: Verification) -> Verification:
            results = []
            for result in found.results:
                own = [t for t in found.trajectories if t.candidate.id == result.candidate.id]
                mean = sum(t.reward or 0.0 for t in own) / len(own) if own else None
                results.append(replace(result, mean=mean, scored=len(own)))
            results.sort(key=lambda result: -(result.mean or 0.0))
            return replace(found, results=tuple(results))

        assert "does not count rollouts without a reward" in spoilt(recount)

    def test_one_that_trains_instead_of_verifying(self) -> None:
        class Training(ReplayTopN):
            def verify(self, request: VerificationRequest) -> Verification:
                def relabelled(assignments: Sequence[Assignment], /) -> Sequence[Trajectory]:
                    return request.rollout([replace(one, purpose="train") for one in assignments])

                return super().verify(replace(request, rollout=relabelled))

        assert failing(VerifierSuite, Training) == {"rolls out only whom and what it was given"}


class TestTasks:
    def test_the_sample_task_passes(self) -> None:
        assert failing(TaskSuite, SampleTask) == set()

    def test_one_without_a_seed(self) -> None:
        class Seedless(SampleTask):
            seed_instructions = ()

        assert failing(TaskSuite, Seedless) == {"starts from at least one instruction"}

    @pytest.mark.parametrize("label", ["", "exact\nmatch"])
    def test_one_whose_number_has_no_label(self, label: str) -> None:
        class Nameless(SampleTask):
            headline = Headline("accuracy", label)

        assert failing(TaskSuite, Nameless) == {"names the number it is compared by"}

    def test_one_whose_seed_lacks_a_tag(self) -> None:
        class Tagless(SampleTask):
            seed_instructions = ("Be brief.",)

        assert failing(TaskSuite, Tagless) == {
            "starts from instructions that hold what is required"
        }

    @pytest.mark.parametrize(
        "bank",
        [
            SentenceBank({"haste": ()}, fixed=SampleTask.required),
            SentenceBank(
                {"haste": ("Be quick.",)}, {"slow": ("speed",)}, fixed=SampleTask.required
            ),
            SentenceBank({"haste": ("Be quick.",)}),
        ],
        ids=["an idea without wordings", "an unknown remedy", "no sentence with the tags"],
    )
    def test_one_whose_bank_does_not_fit_together(self, bank: SentenceBank) -> None:
        found = failing(TaskSuite, type("Loose", (SampleTask,), {"bank": bank}))
        assert found == {"has a bank that fits together"}

    def test_one_that_diagnoses_only_long_trajectories(self) -> None:
        class Fragile(SampleTask):
            def diagnose(self, trajectory: Trajectory) -> Sequence[str]:
                return [trajectory.turns[0].action]

        assert failing(TaskSuite, Fragile) == {"diagnoses any trajectory"}

    def test_one_without_a_question_in_a_split(self) -> None:
        class Untested(SampleTask):
            def questions(self, split: str) -> Sequence[Question]:
                return [] if split == "test" else super().questions(split)

        found = failing(TaskSuite, Untested)
        assert found == {"has questions in every split and the same ones again"}

    def test_one_that_scores_without_its_headline(self) -> None:
        class Nameless(SampleTask):
            def score(self, episode: Episode, question: Question) -> Score:
                return Score(1.0)

        assert failing(TaskSuite, Nameless) == {"scores an episode that says nothing"}
