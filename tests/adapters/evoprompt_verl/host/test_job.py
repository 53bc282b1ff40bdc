"""What an evaluation asks and makes of the answers; the workers are not started."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cpu_support.plugin import Colours
from transformers import AutoTokenizer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.checkpoint.checkpoint_manager import BaseCheckpointManager
from waiting import PATIENCE

from evoprompt.agents.tasks import Score, Trial
from evoprompt.engine import Engine
from evoprompt.experiments.hosts.verl.failures import Failures
from evoprompt.experiments.hosts.verl.host import VerlHost
from evoprompt.experiments.hosts.verl.job import VerlTrainingJob
from evoprompt.experiments.hosts.verl.settings import VerlHostSettings
from evoprompt.experiments.hosts.watchdog import Watchdog
from evoprompt.log.events import Event, Notice
from evoprompt.support.errors import InputError
from evoprompt.types import Question

pytestmark = pytest.mark.usefixtures("colours")

LONG = " who" * 2000


class Replicas:
    """Score what they are asked, as far as scores reach, and remember the prompts."""

    def __init__(self, scores: Sequence[Score | None]) -> None:
        self.scores = scores
        self.prompts: list[str] = []
        self.rows: list[Mapping[str, Any]] = []
        self.pieces: list[int] = []

    def score_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[Score | None]:
        self.rows += rows
        self.pieces.append(len(rows))
        self.prompts += [row["raw_prompt"][-1]["content"] for row in rows]
        return [self.scores[number % len(self.scores)] for number in range(len(rows))]


class LongTest(Colours):
    """Some of its test questions are too long."""

    too_long = 0

    def questions(self, split: str) -> Sequence[Question]:
        found = super().questions(split)
        if split != "test":
            return found
        told = [replace(one, text=one.text + LONG) for one in found[: self.too_long]]
        return (*told, *found[self.too_long :])


Trained = tuple[VerlTrainingJob, Replicas, list[Event]]
Train = Callable[..., Trained]


def trained(
    model: Path,
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    too_long: int = 0,
    scores: Sequence[Score | None] = (Score(0.1, metrics={"accuracy": 0.0}),),
) -> Trained:
    task = LongTest()
    task.too_long = too_long
    settings = {"model": str(model), "questions_per_step": 8, "gpus_per_node": 1}
    host = VerlHost(VerlHostSettings.model_validate({**settings, "prompt_tokens": 200}))
    job = host.prepare(task, Trial(0, directory, 80, 80, task={"name": "colours"}))
    replicas, events = Replicas(scores), list[Event]()

    def started(self: VerlTrainingJob) -> None:
        self._evaluator = replicas  # type: ignore[assignment]

    tokenizer: Any = AutoTokenizer.from_pretrained(model)
    monkeypatch.setattr(job.trainer, "tokenizer", tokenizer, raising=False)
    monkeypatch.setattr(VerlTrainingJob, "_start_workers", started)
    monkeypatch.setattr(job.trainer, "fit", lambda agent_loop_manager: None)
    engine = Engine(task.seed_instructions)
    engine.log.subscribe(events.append)
    job.train(engine, lambda evaluation: None)
    return job, replicas, events


@pytest.fixture
def train(small_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Train:
    return partial(trained, small_model, tmp_path, monkeypatch)


def test_an_evaluation_is_the_mean_of_the_scores_of_training(train: Train) -> None:
    scores = (
        Score(1.0, "", {"accuracy": 1.0, "tool_calls": 1.0}, "even"),
        Score(0.1, "", {"accuracy": 0.0, "tool_calls": 0.0}, "odd"),
    )
    job, replicas, events = train(scores=scores)
    found = job.evaluate("Name any colour.", "validation")
    assert found.value == 0.5
    assert found.by_kind == {"even": 1.0, "odd": 0.0}
    assert found.metrics == {"tool_calls": 0.5, "unscored": 0.0}
    assert {row["split"] for row in replicas.rows} == {"validation"}
    assert events == []


def test_questions_too_long_for_the_instruction_are_left_out_and_told(train: Train) -> None:
    job, replicas, events = train(too_long=3)
    found = job.evaluate("Name any colour.", "test")
    assert found.metrics["unscored"] == pytest.approx(3 / 10)
    assert len(replicas.prompts) == 7
    assert not any(LONG in prompt for prompt in replicas.prompts)
    (notice,) = events
    assert isinstance(notice, Notice)
    assert notice.message.startswith("3 test questions were not scored; the first: too long for")


def test_episodes_that_broke_are_unscored_and_a_notice_says_why(
    train: Train, tmp_path: Path
) -> None:
    scores = (Score(1.0, metrics={"accuracy": 1.0}), None)
    job, replicas, events = train(scores=scores)
    Failures(tmp_path / "unscored.txt").record(ConnectionError("the colours are gone"))
    found = job.evaluate("Name any colour.", "test")
    assert (found.value, found.metrics["unscored"]) == (1.0, 0.5)
    (notice,) = events
    assert isinstance(notice, Notice)
    assert notice.message.endswith("the first: ConnectionError: the colours are gone")
    replicas.scores = (None,)
    Failures(tmp_path / "unscored.txt").record(ConnectionError("the colours are gone"))
    with pytest.raises(InputError, match=r"none of 10 .* ConnectionError: the colours are gone"):
        job.evaluate("Name any colour.", "test")


def test_many_questions_are_asked_in_pieces_and_the_result_is_that_of_the_whole(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = [Score(float(n % 3 == 0), metrics={"accuracy": float(n % 3)}) for n in range(7)]
    job, replicas, _ = train(scores=scores)
    many = [Question(f"q{n}", f"Which colour has the number {n}?", ("red",)) for n in range(6000)]
    monkeypatch.setattr(LongTest, "questions", lambda self, split: many)
    # Each question has its own score, however they are cut.
    monkeypatch.setattr(replicas, "scores", [scores[n % 7] for n in range(len(many))], raising=True)
    asked = replicas.score_rows

    def own(rows: Sequence[Mapping[str, Any]]) -> list[Score | None]:
        asked(rows)
        return [replicas.scores[row["extra_info"]["index"]] for row in rows]

    monkeypatch.setattr(replicas, "score_rows", own)
    found = job.evaluate("Name any colour.", "test")
    assert replicas.pieces == [2560, 2560, 880]
    accuracy = [score.metrics["accuracy"] for score in replicas.scores if score is not None]
    assert found.value == pytest.approx(sum(accuracy) / len(many))
    assert found.metrics["unscored"] == 0.0


class Retention(BaseCheckpointManager):  # type: ignore[misc]
    """veRL's own rules of which folders to remove, and when."""

    def __init__(self) -> None:
        self.previous_saved_paths: list[str] = []

    def save(self, folder: Path, keep: int | None) -> None:
        self.ensure_checkpoint_capacity(keep)
        (folder / "huggingface").mkdir(parents=True)
        self.register_checkpoint(str(folder), keep)


def test_a_kept_policy_costs_no_checkpoint(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, *_ = train()
    trainer, workers = job.trainer, Retention()
    there: list[list[str]] = []

    def save_checkpoint(path: str, *_: object, max_ckpt_to_keep: int | None) -> None:
        workers.save(Path(path), max_ckpt_to_keep)

    def whole() -> None:
        folder = tmp_path / f"global_step_{trainer.global_steps}"
        workers.save(folder / "actor", trainer.config.trainer.max_actor_ckpt_to_keep)
        there.append(sorted(one.name for one in tmp_path.glob("global_step_*/actor/..")))

    group = SimpleNamespace(save_checkpoint=save_checkpoint)
    monkeypatch.setattr(trainer, "actor_rollout_wg", group, raising=False)
    monkeypatch.setattr(trainer, "_save_checkpoint", whole)
    monkeypatch.setattr(PPOTrainerSync, "on_step_end", lambda self: None)
    for step in (25, 50, 75, 100):
        trainer.global_steps = step
        trainer.on_step_end()
        job.save(tmp_path / "policies" / str(step))
    monkeypatch.undo()
    assert [len(one) for one in there] == [1, 2, 3, 3], "the last two until the next is written"
    left = [one.name for one in tmp_path.glob("global_step_*")]
    assert sorted(left) == ["global_step_100", "global_step_75"]
    assert len(list((tmp_path / "policies").iterdir())) == 4


def test_groups_that_stay_open_are_told_while_the_trainer_waits_for_them(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, _, events = train()
    trainer, told = job.trainer, threading.Event()
    monkeypatch.setattr(
        "evoprompt.experiments.hosts.verl.trainer.Watchdog",
        partial(Watchdog, patience=0.0, pause=0.001),
    )
    job._engine.log.subscribe(lambda event: told.set())  # type: ignore[union-attr]
    buffer = trainer.replay_buffer
    buffer.pending_keys["train"], buffer.running_keys["train"] = {"a"}, {"b", "c"}
    asked: list[tuple[int, str, int]] = []

    def sample(global_steps: int, partition_id: str, batch_size: int) -> str:
        assert told.wait(PATIENCE)
        asked.append((global_steps, partition_id, batch_size))
        return "a batch"

    monkeypatch.setattr(trainer, "_sample", sample)
    assert buffer.sample(global_steps=4, partition_id="train", batch_size=8) == "a batch"
    assert asked == [(4, "train", 8)]
    notice = events[-1]
    assert isinstance(notice, Notice)
    assert notice.message.startswith("3 of 8 groups are open")
