"""All candidates share the group of a question where the settings say so, as FST's do."""

from __future__ import annotations

from numbered_engine import QUESTIONS, engine, little_better

from evoprompt.testing import ScriptedPolicy


def test_the_group_of_a_question_is_divided_evenly_and_has_one_baseline() -> None:
    shared, policy = (
        engine(
            population_size=4,
            parents=2,
            candidates_per_question=4,
            grouping="question",
            accept="not-worse",
            prune_every=None,
            evolve_every=5,
            fill_at_start=True,
        ),
        ScriptedPolicy(little_better),
    )
    for _ in range(12):
        shared.evolve(policy)
        assignments = shared.ask(QUESTIONS, 2)
        trajectories = policy(assignments)
        active = sorted(candidate.id for candidate in shared.population.members)
        for number, question in enumerate(QUESTIONS):
            block = assignments[4 * number : 4 * number + 4]
            assert sorted(assignment.candidate.id for assignment in block) == active
            assert all(assignment.question == question for assignment in block)
            (group,) = {assignment.group for assignment in block}
            # The baseline of the paper is the mean of all n rollouts of the question.
            rewards = [t.reward for t in trajectories if t.assignment.group == group]
            assert rewards == [t.reward for t in trajectories if t.question == question]
            assert len(rewards) == 8
        assert len(active) == 4
        shared.tell(trajectories)
