"""Trains a recipe under a real veRL, and writes down the tokens that it trains on.

A process of its own, as veRL's platform is a process's. Arguments: the recipe, a folder, and
settings of ``evoprompt run --set``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from evoprompt.agents.tasks import Trial
from evoprompt.engine import Engine
from evoprompt.experiments.config import load
from evoprompt.experiments.settings import merge
from evoprompt.experiments.trial_parts import host_for
from evoprompt.hosting.attachment import attach
from evoprompt.plugins import build
from evoprompt.types import StepReport, Trajectory

COLUMNS = ["prompts", "responses", "response_mask", "loss_mask", "rm_scores", "advantages"]
HERE: dict[str, JsonValue] = {
    "name": "verl-cpu",
    "nodes": 1,
    "gpus_per_node": 1,
    "arguments": {"trainer.logger": ["file"]},
}


def main(recipe: str, folder: str, *overrides: str) -> None:
    """Trains; ``trained.jsonl`` has a line a rollout, ``told.jsonl`` what the engine heard."""
    output = Path(folder)
    config = load(Path(recipe), overrides)
    task = build("task", config.task)
    own = {"model": config.task["model"], "prompt_tokens": config.task["prompt_tokens"]}
    host = host_for(task, merge(config.host_of("coevolve"), {**HERE, **own}))
    trial = Trial(0, output / "trial", config.budget, config.budget, task=config.task)
    job: Any = host.prepare(task, trial)  # sets what veRL reads when it is imported
    engine = Engine(task.seed_instructions, required=task.required)
    attach(job.trainer, engine, render=job.render)
    _note(job.trainer, engine, output)
    job.train(engine, lambda evaluation: None)
    job.save(output / "policy")


def _note(trainer: Any, engine: Engine, output: Path) -> None:
    import transfer_queue

    update, tell = trainer._update_actor, engine.tell

    def updating(batch: Any, metrics: dict[str, Any]) -> Any:
        data = transfer_queue.kv_batch_get(batch.keys, batch.partition_id, COLUMNS)
        rows = zip(*(data[name].unbind(0) for name in COLUMNS), strict=True)
        _write(
            output / "trained.jsonl",
            [
                {"key": key, **{n: one.tolist() for n, one in zip(COLUMNS, row, strict=True)}}
                for key, row in zip(batch.keys, rows, strict=True)
            ],
        )
        return update(batch, metrics=metrics)

    def telling(trajectories: Sequence[Trajectory]) -> StepReport:
        told = [
            {"reward": trajectory.reward, "calls": trajectory.metrics.get("tool_calls")}
            for trajectory in trajectories
        ]
        _write(output / "told.jsonl", told)
        return tell(trajectories)

    trainer._update_actor = updating
    engine.tell = telling  # type: ignore[method-assign]


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(row)}\n" for row in rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
