"""Trains the tiny policy under a real veRL, stopped after two steps of four and resumed.

A script, because a process has one platform and one Ray. Writes what veRL trained on, read from its
own queue at the moment of the update, and what came out: ``python training_run.py FOLDER``.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evoprompt_search_qa.tiny.task import SearchQa, SearchQaSettings

from evoprompt.agents.tasks import Evaluation, TrainingJob, Trial
from evoprompt.attachment import attach
from evoprompt.engine import Engine
from evoprompt.eventlog import EventLog
from evoprompt.events import Event, Told
from evoprompt.experiments.settings import merge
from evoprompt.plugins import build

SETTINGS = SearchQaSettings(train=32, validation=10, test=20)
QUESTIONS, GROUP, STEPS = 4, 3, 4
BUDGET = QUESTIONS * GROUP * STEPS


def record(trainer: Any, trained: list[dict[str, Any]]) -> None:
    """Notes every trajectory just before the actor is updated with it."""
    import transfer_queue

    update: Callable[..., Any] = trainer._update_actor
    fields = ["prompts", "responses", "response_mask", "loss_mask", "rm_scores", "advantages"]

    def updated(batch: Any, **given: Any) -> Any:
        data = transfer_queue.kv_batch_get(batch.keys, batch.partition_id, select_fields=fields)
        columns = {name: [row.tolist() for row in data[name].unbind(0)] for name in fields}
        for row, key in enumerate(batch.keys):
            found = {name: columns[name][row] for name in fields}
            trained.append({"step": trainer.global_steps, "key": key, **found})
        return update(batch, **given)

    trainer._update_actor = updated


def train(
    folder: Path, resume: bool, trained: list[dict[str, Any]]
) -> tuple[TrainingJob, Engine, list[tuple[int, float]]]:
    """Trains to the end if ``resume``, else until it is stopped after two steps."""
    task = SearchQa(SETTINGS)
    chosen = {
        "name": "verl-cpu",
        "questions_per_step": QUESTIONS,
        "rollouts_per_question": GROUP,
        "learning_rate": 1e-3,
    }
    host = build("host", merge(task.host_defaults["verl-cpu"], chosen))
    section = {"name": "search-qa", **SETTINGS.model_dump(mode="json")}
    trial = Trial(0, folder / "checkpoints", BUDGET, BUDGET // 2, resume, task=section)
    trainee = host.prepare(task, trial)
    log = EventLog(folder / "events.jsonl")
    engine = Engine(task.seed_instructions, log=log, required=task.required)
    curve: list[tuple[int, float]] = []

    def stop(event: Event) -> None:
        if isinstance(event, Told) and event.step == 2 and not resume:
            trainee.stop()

    def evaluated(evaluation: Evaluation) -> None:
        curve.append((engine.rollouts, evaluation.value))

    log.subscribe(stop)
    record(trainee.trainer, trained)
    attachment = attach(trainee.trainer, engine, render=trainee.render)
    trainee.train(engine, evaluated)
    attachment.detach()
    return trainee, engine, curve


def main(folder: Path) -> None:
    """Both parts of the training, then test and save."""
    trained: list[dict[str, Any]] = []
    _, stopped, curve = train(folder, False, trained)
    halfway = stopped.step
    trainee, engine, rest = train(folder, True, trained)
    tested = trainee.evaluate(engine.best.text, "test")
    trainee.save(folder / "policy")
    found = {
        "trained": trained,
        "stopped_after": halfway,
        "curve": curve,
        "curve_resumed": rest,
        "rollouts": engine.rollouts,
        "tested": tested.model_dump(),
        "instruction": engine.best.text,
    }
    (folder / "found.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]))
