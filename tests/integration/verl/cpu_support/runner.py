"""Test support: a task runner of one's own, with ``evoprompt.attach`` in it, and a recorder.

``python -m cpu_support.runner [arguments of main_ppo]``: what somebody with a training script of
their own would write, but that everything the engine is told is also written down.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from verl.trainer import main_ppo

import evoprompt
from evoprompt.types import StepReport, Trajectory

Stock: Any = main_ppo.TaskRunnerV1.__ray_metadata__.modified_class


class Recording(evoprompt.Engine):
    """An engine that writes down what it is told, a file a step, like veRL's own dump."""

    record: Path

    def tell(self, trajectories: Sequence[Trajectory]) -> StepReport:
        """As every engine, once it is written down."""
        lines = [
            {
                "assignment": told.assignment.id,
                "question": told.question.id,
                "asked": told.question.text,
                "candidate": told.candidate.id,
                "instruction": told.candidate.text,
                "group": told.assignment.group,
                "reward": told.reward,
                "metrics": dict(told.metrics),
                "said": [turn.action for turn in told.turns],
                "feedback": told.feedback,
            }
            for told in trajectories
        ]
        file = self.record / f"{self.step + 1}.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return super().tell(trajectories)


@ray.remote
class OwnTaskRunner(Stock):  # type: ignore[misc]
    """veRL's task runner, with one call more."""

    def init_agent_loop_manager(self) -> None:
        super().init_agent_loop_manager()
        from cpu_support.plugin import Colours

        from evoprompt.proposers.sentences import SentenceEdit

        task = Colours()
        assert task.bank is not None
        engine = Recording(
            task.seed_instructions,
            proposer=SentenceEdit(task.bank, task.diagnose, most_sentences=1),
            config=evoprompt.EngineConfig(
                population_size=4,
                prune_every=2,
                evolve_every=2,
                verify_questions=4,
                failure_below=0.9,
                verify_rounds=2,
            ),
            seed=3,
        )
        engine.record = Path(self.config.trainer.rollout_data_dir).with_name("told")
        engine.record.mkdir(parents=True, exist_ok=True)
        evoprompt.attach(self.trainer, engine)


def main() -> None:
    """veRL's main function with our task runner."""
    main_ppo.TaskRunnerV1 = OwnTaskRunner
    main_ppo.main()


if __name__ == "__main__":
    main()
