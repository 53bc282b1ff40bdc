"""What an evaluation asks; the workers are not started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from evoprompt_search_qa.tiny.task import SHIPPED_POLICY, SearchQa, SearchQaSettings
from evoprompt_search_qa.verl.tiny import CHAT_TEMPLATE, prepare
from evoprompt_search_qa.verl.trainee import VerlTrainee
from transformers import AutoTokenizer

from evoprompt.agents import Episode
from evoprompt.engine import Engine
from evoprompt.errors import InputError
from evoprompt.events import Event, Notice
from evoprompt.tasks import Trial
from evoprompt.types import Question, Turn

LONG = " who" * 2000
"""More words than the policy has positions for."""


class Replicas:
    """Answer every question with the same name, and remember what they were asked."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def ask(self, rows: Sequence[Mapping[str, Any]]) -> list[Episode | None]:
        self.prompts += [row["raw_prompt"][-1]["content"] for row in rows]
        return [Episode([], turns=[Turn("<answer>nobody</answer>")]) for _ in rows]


class LongTest(SearchQa):
    """The tiny world; some of its test questions are too long."""

    too_long: int

    def questions(self, split: str) -> tuple[Question, ...]:
        found = tuple(super().questions(split))
        if split != "test":
            return found
        told = [replace(question, text=question.text + LONG) for question in found[: self.too_long]]
        return (*told, *found[self.too_long :])


def trained(
    too_long: int, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[VerlTrainee, Replicas, list[Event]]:
    task = LongTest(SearchQaSettings(train=32, validation=10, test=20))
    task.too_long = too_long
    trainee = prepare(task, {}, Trial(0, directory, 80, 80))
    replicas, events = Replicas(), list[Event]()

    def started(self: VerlTrainee) -> None:
        self._asker = replicas  # type: ignore[assignment]

    tokenizer: Any = AutoTokenizer.from_pretrained(SHIPPED_POLICY)
    tokenizer.chat_template = CHAT_TEMPLATE
    monkeypatch.setattr(trainee.trainer, "tokenizer", tokenizer, raising=False)
    monkeypatch.setattr(VerlTrainee, "_started", started)
    monkeypatch.setattr(trainee.trainer, "fit", lambda agent_loop_manager: None)
    engine = Engine(task.seed_instructions)
    engine.log.subscribe(events.append)
    trainee.train(engine, lambda evaluation: None)
    return trainee, replicas, events


def test_questions_too_long_for_the_instruction_are_left_out_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainee, replicas, events = trained(3, tmp_path, monkeypatch)
    found = trainee.evaluate("Answer with one short name.", "test")
    assert found.metrics["unscored"] == pytest.approx(3 / 20)
    assert len(replicas.prompts) == 17
    assert not any(LONG in prompt for prompt in replicas.prompts)
    (notice,) = events
    assert isinstance(notice, Notice)
    assert notice.message.startswith("3 of 20 test questions are too long for the instruction")


def test_where_all_fit_all_are_asked_and_nothing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainee, replicas, events = trained(0, tmp_path, monkeypatch)
    assert trainee.evaluate("Answer with one short name.", "test").metrics["unscored"] == 0
    assert (len(replicas.prompts), events) == (20, [])


def test_a_split_of_which_nothing_fits_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainee, replicas, _ = trained(20, tmp_path, monkeypatch)
    with pytest.raises(InputError, match="20 of 20 test questions are too long"):
        trainee.evaluate("Answer with one short name.", "test")
    assert replicas.prompts == []
