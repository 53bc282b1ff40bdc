from __future__ import annotations

from evoprompt import Engine, EngineConfig
from evoprompt.proposers.sentences import SentenceEdit
from evoprompt.testing import FakeTrainer, SampleTask, ScriptedPolicy
from evoprompt.types import Assignment


def checks_the_sum(assignment: Assignment) -> float:
    return float("sum twice" in assignment.candidate.text)


def test_a_fake_trainer_evolves_a_better_instruction_without_a_model() -> None:
    task = SampleTask()
    assert task.bank is not None
    engine = Engine(
        task.seed_instructions,
        proposer=SentenceEdit(task.bank, task.diagnose),
        config=EngineConfig(population_size=3, prune_every=2, evolve_every=4),
        required=task.required,
    )
    policy = ScriptedPolicy(checks_the_sum)
    FakeTrainer(policy).train(engine, steps=12)
    assert "Check the sum twice." in engine.best.text
    assert engine.step == 12
    assert engine.rollouts == len(policy.trajectories)


def test_a_scripted_policy_rolls_every_assignment_out_as_often_as_asked() -> None:
    engine = Engine(["Write <answer>the sum</answer>."])
    policy = ScriptedPolicy(lambda assignment: None)
    FakeTrainer(policy, rollouts=3).train(engine, steps=1)
    assert [one.rollout for one in policy.trajectories[:3]] == [0, 1, 2]
    assert all(one.reward is None for one in policy.trajectories)
    assert len(policy.trajectories) == 3 * len(policy.assignments)
