"""The conformance suites of tasks, and of tasks that can be trained here and now."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from evoprompt.agents import Episode
from evoprompt.agents.tasks import (
    Evaluation,
    Host,
    Task,
    TrainingJob,
    Trial,
    require_questions,
    scored,
)
from evoprompt.attachment import attach
from evoprompt.engine import Engine
from evoprompt.experiments.settings import merge
from evoprompt.experiments.trial import host_for
from evoprompt.testing.samples import candidate, question, trajectory
from evoprompt.testing.suite import Suite, expect
from evoprompt.types import Trajectory

_STEP = 4
_TINY: Mapping[str, JsonValue] = {
    "questions_per_step": 2,
    "rollouts_per_question": 2,
    "save_every": 1,
    "arguments": {"use_cpu": True, "bf16": False, "gradient_checkpointing": False},
}


class TaskSuite(Suite[Task]):
    """What every task must keep before anything is trained."""

    def test_names_the_number_it_is_compared_by(self) -> None:
        headline = self.build().headline
        expect(
            all(text.strip() and text.isprintable() for text in (headline.name, headline.label)),
            f"the headline {headline!r} lacks a name or a label of one printable line",
        )

    def test_starts_from_instructions_that_hold_what_is_required(self) -> None:
        task = self.build()
        seeds = task.seed_instructions
        expect(len(seeds) > 0, f"the seed instructions are {seeds!r}; required: at least one text")
        expect(len(set(seeds)) == len(seeds), "two seed instructions are alike")
        expect(not isinstance(task.required, str), "required is one text, not a sequence of texts")
        for seed in seeds:
            lost = [text for text in task.required if text not in seed]
            expect(not lost, f"the seed {seed!r} lacks {', '.join(lost)}")

    def test_has_a_bank_that_fits_together(self) -> None:
        task = self.build()
        if task.bank is None:
            return
        for idea, wordings in task.bank.sentences.items():
            expect(
                not isinstance(wordings, str) and len(wordings) > 0,
                f"the idea {idea!r} has the wordings {wordings!r}; required: at least one text",
            )
        for diagnosis, ideas in task.bank.remedies.items():
            unknown = sorted(set(ideas) - set(task.bank.sentences))
            expect(not unknown, f"the remedies of {diagnosis!r} are not in the bank: {unknown}")
        fixed = " ".join(task.bank.fixed)
        lost = [text for text in task.required if text not in fixed]
        expect(not lost, f"the fixed sentences of the bank lack {', '.join(lost)}")

    def test_diagnoses_any_trajectory(self) -> None:
        task = self.build()
        usual = trajectory(candidate(0), question(1), 0.0)
        for what, one in {
            "a failure": usual,
            "a success": trajectory(candidate(0), question(1), 1.0),
            "one without a reward": trajectory(candidate(0), question(1), None),
            "one without turns": Trajectory(usual.assignment, 0.0),
        }.items():
            found = task.diagnose(one)
            expect(
                not isinstance(found, str) and all(isinstance(name, str) for name in found),
                f"the diagnosis of {what} is {found!r}; required: a sequence of names",
            )

    def test_has_questions_in_every_split_and_the_same_ones_again(self) -> None:
        first, second = self.build(), self.build()
        require_questions(first)
        for split in ("train", "validation", "test"):
            ids = [question.id for question in first.questions(split)]
            expect(
                ids == [question.id for question in second.questions(split)],
                f"two builds with the same settings differ in the questions of {split}",
            )

    def test_scores_an_episode_that_says_nothing(self) -> None:
        task = self.build()
        question = task.questions("validation")[0]
        found = scored(task, Episode([], end="malformed"), question)
        expect(found is not None, "it has no score")
        Evaluation.of([found] if found else [], task.headline)


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
        lacking = [f"{need.subject}: {need.text}" for need in plan.needs if need.missing]
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
