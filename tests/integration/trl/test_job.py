"""The host ``trl`` with a task that it has never met."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from adding_task import Adding, Scripted, save_model
from contract_runs import note_tells
from pydantic import JsonValue
from trl.trainer.grpo_trainer import GRPOTrainer
from waiting import PATIENCE

import evoprompt
from evoprompt.agents import Action, Broken, Episode
from evoprompt.agents.tasks import Evaluation, Score, Task, Trial
from evoprompt.engine import Engine
from evoprompt.experiments.hosts.trl import job as host
from evoprompt.experiments.hosts.trl.job import TrlTrainingJob
from evoprompt.experiments.hosts.watchdog import Watchdog
from evoprompt.experiments.testing import TaskSuite
from evoprompt.experiments.trial_parts import host_for
from evoprompt.log.eventlog import EventLog
from evoprompt.log.events import Event, Notice
from evoprompt.support.errors import EvopromptWarning, InputError
from evoprompt.types import Question, Trajectory


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_model(tmp_path_factory.mktemp("model"))


class TestAdding(TaskSuite):
    def build(self) -> Adding:
        return Adding()


def prepared(
    task: Task, directory: Path, resume: bool = False, **host: JsonValue
) -> TrlTrainingJob:
    trial = Trial(0, directory, 24, 8, resume)
    return cast(TrlTrainingJob, host_for(task, {"name": "trl", **host}).prepare(task, trial))


def trained(
    task: Task, job: TrlTrainingJob, log: EventLog, stop_at: int | None = None
) -> tuple[Engine, list[Trajectory], list[Evaluation]]:
    engine = Engine(task.seed_instructions, log=log)
    told = note_tells(engine)
    curve: list[Evaluation] = []
    attachment = evoprompt.attach(job.trainer, engine, render=job.render)

    def record(evaluation: Evaluation) -> None:
        curve.append(evaluation)
        if engine.rollouts == stop_at:
            job.stop()

    job.train(engine, record)
    attachment.detach()
    return engine, [one for step in told for one in step], curve


def weights(job: TrlTrainingJob) -> torch.Tensor:
    model: Any = job.trainer.model
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])


def test_a_task_by_tool_calls_is_trained_scored_and_told_of(model: str, tmp_path: Path) -> None:
    task = Adding()
    job = prepared(task, tmp_path, model=model)
    engine, told, curve = trained(task, job, EventLog())
    assert engine.rollouts == len(told) == 24
    assert [found.value for found in curve] == [0.5] * 4
    assert curve[0].by_kind == {"even": 1.0, "odd": 0.0}
    assert curve[0].metrics["tool_calls"] == 1.0
    failed = [one for one in told if one.reward == 0.0]
    assert failed
    for one in told:
        assert one.metrics["accuracy"] == one.reward
        assert one.metrics["tool_calls"] == 1.0
    for one in failed:
        assert one.feedback == f"expected {one.question.answers[0]}, got no idea"
        assert '"add"' in one.turns[0].action
        assert one.question.answers[0] in one.turns[0].observation
    assert all(not one.feedback for one in told if one.reward)


def test_the_policy_is_shown_the_tools_and_they_count_against_its_room(
    model: str, tmp_path: Path
) -> None:
    job = prepared(Adding(), tmp_path, model=model)
    trainer: Any = job.trainer
    prompt = [{"role": "user", "content": "1 plus 1?"}]
    ids = trainer.rollout_func([prompt], trainer)["prompt_ids"][0]
    assert "The sum of two numbers." in trainer.processing_class.decode(ids)
    engine = Engine(["Add."])
    evoprompt.attach(trainer, engine, render=job.render, probe=False)
    without = prepared(Adding(), tmp_path / "without", model=model, max_calls=0)
    other = Engine(["Add."])
    evoprompt.attach(without.trainer, other, render=without.render, probe=False)
    assert engine.limits.max_prompt_tokens is not None
    assert other.limits.max_prompt_tokens is not None
    spent = 2048 - engine.limits.max_prompt_tokens - task_tokens(2)
    assert spent > 2048 - other.limits.max_prompt_tokens - task_tokens(0)


def task_tokens(calls: int) -> int:
    return (calls + 1) * 96 + calls * 128


def test_a_stopped_training_resumes_with_its_feedback(model: str, tmp_path: Path) -> None:
    task = Adding()
    whole = prepared(task, tmp_path / "whole", model=model)
    engine, _, curve = trained(task, whole, EventLog())
    log = tmp_path / "events.jsonl"
    begun = prepared(task, tmp_path / "parts", model=model)
    _, _, first = trained(task, begun, EventLog(log), stop_at=8)
    resumed = prepared(task, tmp_path / "parts", resume=True, model=model)
    continued, _, second = trained(task, resumed, EventLog(log))
    assert first + second == curve
    assert list(continued.log) == list(engine.log)
    assert torch.equal(weights(resumed), weights(whole))
    assert any(one.feedback for one in engine.replay)
    assert list(continued.replay) == list(engine.replay)
    resumed.save(tmp_path / "policy")
    again = prepared(task, tmp_path / "again", model=str(tmp_path / "policy"))
    assert torch.equal(weights(again), weights(whole))


class FewQuestions(Adding):
    """A question per split."""

    def questions(self, split: str) -> Sequence[Question]:
        return super().questions(split)[:1]


def test_a_task_with_fewer_questions_than_a_step_takes_is_refused(
    model: str, tmp_path: Path
) -> None:
    job = prepared(FewQuestions(), tmp_path, model=model)
    with pytest.raises(InputError, match=r"has 1 row, .* takes 2 .* host\.questions_per_step$"):
        trained(FewQuestions(), job, EventLog())


class Least(Task):
    """Three members; the policy says whatever it says."""

    seed_instructions = ("Answer.",)

    def questions(self, split: str) -> Sequence[Question]:
        return [Question(f"{split}{n}", f"{n}?") for n in range(4)]

    def score(self, episode: Episode, question: Question) -> Score:
        return Score(float(len(episode.answer or "") % 2))


def test_three_members_are_enough_for_any_causal_model(tmp_path: Path) -> None:
    task = Least()
    folder = save_model(tmp_path / "model", None)
    job = prepared(
        task,
        tmp_path / "out",
        model=folder,
        questions_per_step=2,
        rollouts_per_question=4,
        turn_tokens=16,
    )
    engine, told, curve = trained(task, job, EventLog())
    assert engine.rollouts == 24
    assert len(curve) == 4
    assert {one.reward for one in told} <= {0.0, 1.0}


def test_what_breaks_or_has_no_room_is_unscored_and_told_of_and_training_goes_on(
    model: str, tmp_path: Path
) -> None:
    class Breaking(Scripted):
        def __call__(self, episodes: Sequence[Episode], *given: Any, **named: Any) -> Any:
            actions: list[Action | Broken] = super().__call__(episodes, *given, **named)
            return [Broken("no room"), *actions[1:]]

    class Cramped(Adding):
        def questions(self, split: str) -> Sequence[Question]:
            found = list(super().questions(split))
            if split == "validation":
                found[0] = replace(found[0], text="x" * 2000 + found[0].text)
            return found

        def sampler(self, model: Any, tokenizer: Any, temperature: float) -> Breaking:
            return Breaking(tokenizer)

    task, log = Cramped(), EventLog()
    with pytest.warns(EvopromptWarning, match="rollouts of step 1 have no reward"):
        engine, told, curve = trained(task, prepared(task, tmp_path, model=model), log)
    assert engine.rollouts == 24
    assert sum(one.reward is None for one in told) >= 3
    assert curve[0].metrics["unscored"] > 1 / 6
    notices = [str(event["message"]) for event in log if event["event"] == "notice"]
    assert any("a prompt of" in one and "validation questions were not" in one for one in notices)


def test_rollouts_that_stay_open_are_told_while_the_trainer_waits_for_them(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, heard, log = threading.Event(), list[str](), EventLog()

    class Hanging(Scripted):
        def __call__(self, episodes: Sequence[Episode], *given: Any, **named: Any) -> Any:
            if len(episodes) == 4:  # the others have answered
                assert told.wait(PATIENCE)
            return super().__call__(episodes, *given, **named)

        def _say(self, episode: Episode, greedy: bool) -> Action:
            asked = self._tokenizer.decode(episode.prompt_ids)
            if "1 plus" in asked or "2 plus" in asked:
                return Action(self._tokenizer.encode("no idea", add_special_tokens=False))
            return super()._say(episode, greedy)

    class Slow(Adding):
        def sampler(self, model: Any, tokenizer: Any, temperature: float) -> Hanging:
            return Hanging(tokenizer)

    def hear(event: Event) -> None:
        if isinstance(event, Notice) and "4 of 6 rollouts are open" in event.message:
            heard.append(event.message)
            told.set()

    monkeypatch.setattr(host, "Watchdog", partial(Watchdog, patience=0.0, pause=0.001))
    log.subscribe(hear)
    trained(Slow(), prepared(Slow(), tmp_path, model=model), log)
    assert "none was finished" in heard[0]
    assert not any("are open" in str(event.get("message")) for event in log)


class Untested(Adding):
    def questions(self, split: str) -> Sequence[Question]:
        return [] if split == "test" else super().questions(split)


@pytest.mark.parametrize(
    ("task", "host", "said"),
    [
        (Untested, {}, "Untested has no question in the split 'test'"),
        (
            Adding,
            {"arguments": {"generation_kwargs": {"max_new_tokens": 3, "typical_p": 0.9}}},
            "has max_new_tokens; required: .*host.turn_tokens",
        ),
        (
            Adding,
            {"arguments": {"generation_kwargs": {"repetition_penality": 1.2, "min_p": 0.1}}},
            "has repetition_penality, .*did you mean 'repetition_penalty'",
        ),
        (
            Adding,
            {"turn_tokens": 4096},
            r"no room for a prompt in the .* lower .* the task's limits",
        ),
        (Adding, {"model": "plain"}, r"tool calls were requested, but .* no chat template"),
    ],
)
def test_what_cannot_work_is_refused_by_the_plan(
    task: type[Adding], host: dict[str, Any], said: str, model: str, tmp_path: Path
) -> None:
    named = save_model(tmp_path / "plain", None) if "model" in host else model
    found = host_for(task(), {"name": "trl", **host, "model": named})
    with pytest.raises(InputError, match=said):
        found.plan(task(), Trial(0, tmp_path / "out", 24, 8))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ({}, "no model is named"),
        ({"model": "nowhere/at-all"}, "host.model is 'nowhere/at-all', which cannot be loaded"),
        ({"model": "x", "micro_batch": 3}, "required: a multiple of"),
        ({"model": "x", "max_cals": 3}, "did you mean 'max_calls'"),
    ],
)
def test_wrong_settings_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: dict[str, Any], said: str
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InputError, match=said):
        prepared(Adding(), tmp_path, **host)


@pytest.mark.parametrize("loss_type", ["grpo", "dr_grpo", "dapo", "bnpo"])
def test_rollouts_without_an_advantage_are_in_no_pass_and_that_changes_nothing(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss_type: str
) -> None:
    passes: list[torch.Tensor] = []
    loss: Any = GRPOTrainer._compute_loss

    def counted(trainer: GRPOTrainer, policy: torch.nn.Module, inputs: dict[str, Any]) -> Any:
        passes.append(inputs["advantages"])
        return loss(trainer, policy, inputs)

    monkeypatch.setattr(GRPOTrainer, "_compute_loss", counted)
    rollouts, policies = [], []
    for selecting in (True, False):
        if not selecting:
            monkeypatch.setattr(host._Trainer, "compute_loss", GRPOTrainer.compute_loss)
        passes.clear()
        job = prepared(
            Least(),
            tmp_path / str(selecting),
            model=model,
            questions_per_step=4,
            rollouts_per_question=2,
            micro_batch=4,
            arguments={"beta": 0.0, "learning_rate": 0.1, "optim": "sgd", "loss_type": loss_type},
        )
        before = weights(job)
        trained(Least(), job, EventLog())
        rollouts.append(torch.cat(passes))
        policies.append(weights(job))
    selected, every = rollouts
    assert len(selected) < len(every) == 24
    assert torch.equal(selected[selected != 0], every[every != 0])
    assert selected.all() or loss_type == "bnpo"  # its mean is over the tokens of a pass
    moved, beside = (after - before for after in policies)
    assert moved.abs().max() > 0
    torch.testing.assert_close(moved, beside, rtol=1e-3, atol=1e-7)


def test_the_last_layer_is_given_whole_states_and_no_view(model: str, tmp_path: Path) -> None:
    trainer: Any = prepared(Least(), tmp_path, model=model).trainer
    seen: list[bool] = []
    trainer.model.get_output_embeddings().register_forward_pre_hook(
        lambda _, given: seen.append(given[0].is_contiguous())
    )
    trainer.rollout_func([[{"role": "user", "content": f"{n}?"}] for n in range(3)], trainer)
    assert seen
    assert all(seen)
