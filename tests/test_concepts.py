"""A default run does what docs/concepts.md says of population, sampler, survivor and verifier."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from evoprompt import Assignment, Engine, EngineConfig, Proposal, ProposalRequest, Proposer
from evoprompt.types import CandidateStats, Question, Trajectory

ROOT = Path(__file__).parents[1]
PAGE = re.sub(r"\s+", " ", (ROOT / "docs/concepts.md").read_text(encoding="utf-8"))
WORDS = {"one": 1, "two": 2, "three": 3, "five": 5, "seven": 7, "a dozen": 12}


def stated(pattern: str) -> list[int]:
    """Return the numbers that the page states where ``pattern`` matches."""
    match = re.search(pattern, PAGE)
    assert match, f"docs/concepts.md no longer says {pattern!r}"
    return [WORDS.get(word) or int(word) for word in match.groups()]


class Run(Proposer):
    """A training of ``steps`` steps under a default engine, in which ideas get rarer.

    Every text has a number, and a chance of a reward that is its parent's and some luck.
    """

    def __init__(self, questions: int, steps: int, seeds: int = 1) -> None:
        self.rng = random.Random(3)
        self.chance = {f"Note {n}.": 0.3 for n in range(seeds)}
        self.counts: list[int] = []
        self.groups: list[Counter[str]] = []
        self.sizes: list[int] = []
        self.halved = 0
        self.trial_places: list[int] = []
        self.incumbent_places: list[int] = []
        self.engine = Engine(list(self.chance), proposer=self, config=EngineConfig(), rules=[])
        self.engine.divide_rollouts(5, "num_generations")
        halve = self.engine.selection.survivor.select

        def select(
            candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
        ) -> Sequence[CandidateStats]:
            self.halved += 1
            return halve(candidate_stats, k, rng)

        self.engine.selection.survivor.select = select  # type: ignore[method-assign]
        for step in range(steps):
            self.engine.evolve(lambda assignments: pytest.fail("an extra rollout was made"))
            self.take_step([Question(f"q{step}-{n}", "Who?") for n in range(questions)])

    def take_step(self, questions: Sequence[Question]) -> None:
        engine = self.engine
        on_trial = {candidate.id for candidate in engine.generations.trials.candidates}
        best = engine.best.id
        assert best in engine.population
        assignments = engine.ask(questions, 1)
        self.groups.append(Counter(a.candidate.id for a in assignments))
        if len(on_trial) > 1:
            for question in questions:
                own = [a.candidate.id for a in assignments if a.question == question]
                self.trial_places.append(sum(name in on_trial for name in own))
                self.incumbent_places.append(own.count(best))
        engine.tell([self.answer(assignment) for assignment in assignments])
        self.sizes.append(len(engine.population.members))

    def answer(self, assignment: Assignment) -> Trajectory:
        chance = self.chance[assignment.candidate.text]
        return Trajectory(assignment, float(self.rng.random() < chance), 0)

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        parent = request.parents[0].candidate
        self.counts.append(request.count)
        proposals = []
        for _ in range(request.count):
            text = f"Note {len(self.chance)}."
            chance = self.chance[parent.text] + self.rng.gauss(-0.05, 0.1)
            self.chance[text] = min(max(chance, 0.02), 0.95)
            proposals.append(Proposal.of(text, parent))
        return proposals

    def events(self, name: str) -> list[dict[str, object]]:
        return [event for event in self.engine.log if event["event"] == name]


@pytest.fixture(scope="module")
def run() -> Run:
    return Run(questions=16, steps=100)


def test_each_seed_is_rolled_out_on_a_dozen_questions_before_anything_is_proposed() -> None:
    (groups,) = stated(r"Each is rolled out on (a dozen) questions before anything else happens")
    run = Run(questions=4, steps=30, seeds=7)
    totals = Counter[str]()
    for step, group in enumerate(run.groups):
        if min(totals[f"c{n}"] for n in range(7)) < groups:
            assert set(group) <= {f"c{n}" for n in range(7)}, f"a proposal was tried at step {step}"
        totals += group
    assert run.counts, "nothing was proposed"


def test_the_number_of_proposals_is_that_of_the_page(run: Run) -> None:
    few, many, large = stated(r"(\d+) proposals, (\d+) in steps of (\d+) questions or more")
    assert set(run.counts) == {few}
    assert set(Run(questions=large - 1, steps=3).counts) == {few}
    assert set(Run(questions=large, steps=3).counts) == {many}


def test_the_rollouts_of_a_question_are_shared_as_the_page_says(run: Run) -> None:
    of, trials, incumbent, drawn = stated(
        r"of (five) rollouts of a question, (three) go to candidates on trial, which take turns, "
        r"(one) to the incumbent, and (one) to a member that the sampler draws"
    )
    assert trials + incumbent + drawn == of == 5
    assert set(run.trial_places) == {trials}
    assert min(run.incumbent_places) == incumbent
    # The sampler may draw the incumbent, and draws other members as well.
    assert set(run.incumbent_places) == {incumbent, incumbent + drawn}


def test_of_the_candidates_that_a_step_admits_one_becomes_the_incumbent(run: Run) -> None:
    admitted: dict[int, set[str]] = {}
    for event in run.events("verified"):
        if event["admitted"]:
            admitted.setdefault(int(str(event["step"])), set()).add(str(event["candidate"]))
    incumbents = {e["step"]: str(e["candidate"]) for e in run.events("incumbent_changed")}
    assert len(admitted) > 3
    for step, candidates in admitted.items():
        assert incumbents[step] in candidates
    assert run.engine.best.id == [*incumbents.values()][-1] != "c0"


def test_the_population_has_as_many_members_as_the_page_says(run: Run) -> None:
    (most,) = stated(r"at most `population_size` \((\d+)\)")
    low, high = stated(r"After a hundred steps of 80 rollouts a run has (two) to (seven) members")
    assert most == EngineConfig().population_size
    assert max(run.sizes) <= most
    assert low <= run.sizes[-1] <= high == most


def test_the_survivor_selector_is_called_only_where_pruning_is_set(run: Run) -> None:
    assert "`prune_every` is null by default, and the survivor selector is not called" in PAGE
    assert run.halved == 0
    assert run.engine.config.prune_every is None
