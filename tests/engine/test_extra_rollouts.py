"""Extra rollouts of a generation: how many there may be, and in which groups."""

from __future__ import annotations

from collections.abc import Sequence

from numbered_engine import Numbered

from evoprompt import Engine, EngineConfig, Verifier
from evoprompt.roles import VerificationRequest
from evoprompt.testing import ScriptedPolicy
from evoprompt.testing.samples import candidate, question
from evoprompt.types import (
    REJECTED,
    Assignment,
    Trajectory,
    Verification,
    VerificationResult,
)
from evoprompt.verifiers import VerificationRollouts


def test_a_generation_takes_a_fifth_of_the_training_since_the_last_one() -> None:
    config = EngineConfig(accept="not-worse", evolve_every=10, verify_questions=1_000, parents=1)
    engine = Engine(["Add."], proposer=Numbered(), config=config)
    trials = engine.generations.trials
    trials.questions, trials.rollouts = 100, 5
    assert engine.generations.most_rollouts(4) == 100 * 5 * 10 // 5


def test_all_rounds_of_a_generation_share_them() -> None:
    left: list[int | None] = []

    class Spending(Verifier):
        def most_rollouts(self, proposed: int, parents: int) -> int:
            return 10

        def verify(self, request: VerificationRequest) -> Verification:
            left.append(request.max_rollouts)
            assert request.rollout is not None
            spent = request.rollout(
                [Assignment("a", question(1), request.proposed[0], 7, "a", "verify")]
            )
            rejected = tuple(
                VerificationResult(proposed, 0.5, None, 7, REJECTED, "no")
                for proposed in request.proposed
            )
            return Verification(rejected, trajectories=tuple(spent))

    config = EngineConfig(evolve_every=1, verify_rounds=2, population_size=4)
    engine = Engine(["Note 0."], proposer=Numbered(), config=config, rules=[], verifier=Spending())
    policy = ScriptedPolicy(lambda assignment: 0.5)
    engine.tell(policy(engine.ask([question(n) for n in range(20)], rollouts=5)))
    engine.waits = True
    engine.evolve(policy)
    assert left == [20, 13]


def test_groups_of_the_trainer_are_whole() -> None:
    sizes: list[int] = []

    def roll_out(assignments: Sequence[Assignment], /) -> list[Trajectory]:
        sizes.extend(assignment.rollouts for assignment in assignments)
        return []

    rollouts = VerificationRollouts(roll_out, group=4)
    rollouts([Assignment("a", question(1), candidate(1), n, "a") for n in (1, 4, 6)])
    assert sizes == [4, 4, 8]
