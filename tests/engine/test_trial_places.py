"""Places of candidates on trial where each question has one candidate."""

from __future__ import annotations

import pytest
from numbered_engine import QUESTIONS, engine

from evoprompt.engine import Engine
from evoprompt.testing import ScriptedPolicy
from evoprompt.types import Assignment

POLICY = ScriptedPolicy(lambda assignment: float(int(assignment.question.id[1:]) % 2))


def on_trial() -> Engine:
    """Return an engine with candidates on trial."""
    engine_ = engine()
    while not engine_.evolution_due:  # until the seed has a dozen groups
        engine_.tell(POLICY(engine_.ask(QUESTIONS, 2)))
    engine_.evolve(POLICY)
    return engine_


def test_each_meets_all_questions_though_the_batches_are_in_a_fixed_order() -> None:
    """Otherwise the difficulty of its questions would count as its own."""
    engine_, met = on_trial(), dict[str, set[str]]()
    names = {candidate.id for candidate in engine_.generations.trials.candidates}
    for _ in range(60):
        assignments = engine_.ask(QUESTIONS, 2)
        for assignment in assignments:
            met.setdefault(assignment.candidate.id, set()).add(assignment.question.id)
    assert len(names) == 4  # as many as a step of eight questions has places for
    for name in names | {"c0"}:
        assert met[name] == {question.id for question in QUESTIONS}


@pytest.mark.parametrize("questions", [1, 3])
def test_the_incumbent_has_rollouts_where_few_questions_are_asked_together(questions: int) -> None:
    """The gateway asks one question at a time."""
    engine_, assignments = on_trial(), list[Assignment]()
    for start in range(0, 120, questions):
        batch = [QUESTIONS[(start + place) % len(QUESTIONS)] for place in range(questions)]
        assignments += engine_.ask(batch, 2, step_of=len(QUESTIONS))
    share = sum(assignment.candidate.id == "c0" for assignment in assignments) / len(assignments)
    assert 0.3 < share < 0.5, "two of five places"
