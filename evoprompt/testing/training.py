"""The conformance suite of tasks that can be trained here and now."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from evoprompt.agents.tasks import Evaluation, Host, Task, TrainingJob, Trial
from evoprompt.attachment import attach
from evoprompt.engine import Engine
from evoprompt.experiments.settings import merge
from evoprompt.experiments.trial import host_for
from evoprompt.testing.suite import expect
from evoprompt.testing.tasks import TaskSuite

_STEP = 4
_TINY: Mapping[str, JsonValue] = {
    "questions_per_step": 2,
    "rollouts_per_question": 2,
    "save_every": 1,
    "arguments": {"use_cpu": True, "bf16": False, "gradient_checkpointing": False},
}


class TaskTrainingSuite(TaskSuite):
    """What every task must keep in a training of two steps by a small model.

    Build the task with few questions: all of the validation split are asked several times.

    Attributes:
        host: section of the host that trains it, such as ``{"name": "trl", "model": FOLDER}``; the
            name alone where the task's own model is small. Two questions a step and two rollouts
            each win over what it says.
    """

    host: Mapping[str, JsonValue] = {"name": "trl"}

    def test_plans_a_training_that_can_start_here(self) -> None:
        task = self.build()
        with tempfile.TemporaryDirectory() as folder:
            plan = self._host(task).plan(task, _trial(Path(folder)))
        lacking = (
            [f"{need.subject}: {need.text}" for need in plan.needs if need.missing] if plan else []
        )
        expect(not lacking, f"something is missing here: {'; '.join(lacking)}")

    def test_evaluates_every_split_twice_alike(self) -> None:
        task = self.build()
        with tempfile.TemporaryDirectory() as folder:
            trainee = self._host(task).prepare(task, _trial(Path(folder)))
            for split in ("validation", "test"):
                first, second = (trainee.evaluate(task.seeds[0], split) for _ in range(2))
                expect(
                    first == second,
                    f"two greedy evaluations of {split} differ: {first.value} and {second.value}",
                )

    def test_trains_stops_resumes_and_saves(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder)
            task = self.build()
            begun = self._host(task).prepare(task, _trial(directory))
            first, _ = _train(task, begun, stop=True)
            expect(first.rollouts == _STEP, f"it stopped after {first.rollouts} rollouts, not 4")
            task = self.build()
            resumed = self._host(task).prepare(task, _trial(directory, resume=True))
            engine, curve = _train(task, resumed)
            expect(engine.rollouts == 2 * _STEP, f"it ended at {engine.rollouts} rollouts, not 8")
            expect(len(curve) == 1, f"resumed, it was evaluated {len(curve)} times, not once")
            resumed.save(directory / "policy")
            again = self._host(task).prepare(
                task, _trial(directory / "again", policy=directory / "policy")
            )
            instruction = engine.best.text
            saved, trained = (one.evaluate(instruction, "test") for one in (again, resumed))
            expect(
                saved == trained,
                f"the saved policy is worth {saved.value}, the trained one {trained.value}",
            )

    def _host(self, task: Task) -> Host:
        return host_for(task, merge(self.host, _TINY))


def _trial(directory: Path, resume: bool = False, policy: Path | None = None) -> Trial:
    return Trial(
        seed=0,
        directory=directory / "trial",
        budget=2 * _STEP,
        evaluate_every=_STEP,
        resume=resume,
        policy=policy,
    )


def _train(task: Task, trainee: TrainingJob, stop: bool = False) -> tuple[Engine, list[Evaluation]]:
    engine = Engine(task.seeds[:1], required=task.required)
    curve: list[Evaluation] = []

    def record(evaluation: Evaluation) -> None:
        curve.append(evaluation)
        if stop and engine.rollouts:
            trainee.stop()

    attachment = attach(trainee.trainer, engine, render=trainee.render)
    try:
        trainee.train(engine, record)
    finally:
        attachment.detach()
    return engine, curve
