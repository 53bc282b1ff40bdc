"""The instruction is for the policy alone: whoever scores or resets reads the dataset's prompts."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tiny_trl
from datasets import Dataset
from trl.trainer.grpo_trainer import GRPOTrainer

import evoprompt
from evoprompt import Question
from evoprompt.hosting.prompts import Render, replace_system_message, system_message, user_prefix

TEXT = "be brief"


class Levels:
    """An environment whose ``reset`` names its own argument."""

    def reset(self, level: int) -> str:
        """Return the question."""
        return f"what is {tiny_trl.COUNTRIES[level % 8]} ?"


class Played:
    """An environment that completes the prompt of the row by its other columns."""

    def reset(self, level: int, prompt: Any, id: str) -> str:  # noqa: A002
        """Return the rest of the question."""
        return f" {tiny_trl.COUNTRIES[level % 8]} ?"


class Library:
    """An environment that looks its task up by the prompt of the row."""

    prompts: Sequence[Any] = ()

    def reset(self, prompt: Any, **columns: Any) -> str:
        """Return the question."""
        assert prompt in self.prompts
        return " guess"


def environment_trainer(
    folder: Path, rows: Sequence[dict[str, Any]], environment: type, rewards: Any
) -> GRPOTrainer:
    words = tiny_trl.tokenizer()
    words.chat_template = tiny_trl.TOOL_TEMPLATE
    return GRPOTrainer(
        model=tiny_trl.model(),
        reward_funcs=rewards,
        args=tiny_trl.config(folder, max_steps=2),
        train_dataset=Dataset.from_list(list(rows)),
        processing_class=words,
        environment_factory=environment,
    )


class Judge:
    """A reward function that notes what it is given."""

    __name__ = "judge"

    def __init__(self) -> None:
        self.prompts: list[Any] = []
        self.instructions: list[str] = []

    def __call__(
        self,
        prompts: list[Any],
        completions: list[Any],
        evoprompt_instruction: Sequence[str] = (),
        **columns: Any,
    ) -> list[float]:
        """Reward short words."""
        self.prompts += prompts
        self.instructions += evoprompt_instruction
        return tiny_trl.short_words(completions)


@pytest.mark.parametrize("chat", [True, False])
@pytest.mark.parametrize("render", [system_message, user_prefix, replace_system_message])
@pytest.mark.parametrize("rloo", [False, True])
def test_a_judge_reads_the_prompts_of_the_dataset_in_training_and_in_evaluation(
    tmp_path: Path, render: Render, chat: bool, rloo: bool
) -> None:
    judges = []
    for attached in (False, True):
        judge = Judge()
        rows = tiny_trl.questions(8, chat=chat)
        trainer = tiny_trl.trainer(
            tmp_path, rows=rows, rewards=[judge], rloo=rloo, evaluate_on=rows, max_steps=2
        )
        read = tiny_trl.prompts_read(trainer)
        if attached:
            evoprompt.attach(trainer, evoprompt.Engine([TEXT]), render=render)
        trainer.train()
        trainer.evaluate()
        assert all((TEXT in str(prompt)) == attached for prompt in read)
        judges.append(judge)
    bare, judge = judges
    assert judge.prompts == bare.prompts
    assert bare.instructions == []
    assert judge.instructions == [TEXT] * len(judge.prompts)


def test_a_developer_message_in_third_place_is_replaced_for_the_policy_alone(
    tmp_path: Path,
) -> None:
    question, own = {"role": "user", "content": "look ?"}, "be slow"
    parts = [{"role": "developer", "content": own}, question]
    rows = [{**row, "prompt": [*row["prompt"], question, *parts]} for row in tiny_trl.questions(8)]
    judge: Any = Judge()
    trainer = tiny_trl.trainer(tmp_path, rows=rows, rewards=[judge], max_steps=1)
    read = tiny_trl.prompts_read(trainer)
    evoprompt.attach(trainer, evoprompt.Engine([TEXT]), render=replace_system_message)
    trainer.train()
    for prompt, judged in zip(read, judge.prompts, strict=True):
        assert prompt[0] == {"role": "developer", "content": TEXT}
        assert prompt[1:] == [message for message in judged if message["role"] == "user"]
        assert judged[2]["content"] == own


@pytest.mark.parametrize(
    ("value", "failed"), [(None, 6), (float("nan"), 1), (float("inf"), 8), (float("-inf"), 1)]
)
def test_rewards_that_are_no_numbers_are_counted(
    tmp_path: Path, value: float | None, failed: int
) -> None:
    def judge(completions: list[Any], **columns: Any) -> list[float | None]:
        scored: list[float | None] = [*tiny_trl.short_words(completions)]
        return [value] * failed + scored[failed:]

    trainer = tiny_trl.trainer(tmp_path, rewards=[judge], max_steps=1)
    engine = evoprompt.Engine([TEXT])
    evoprompt.attach(trainer, engine)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.train()
    messages = [str(warning.message) for warning in caught]
    (message,) = [text for text in messages if "rollouts of step 1 have no reward" in text]
    assert message.startswith(f"{failed} of 8 ")
    assert value is None or f"the reward was {value}" in message or value != value
    assert engine.metrics()["rollouts_failed"] == failed


def test_a_reward_function_that_names_all_its_columns_is_given_no_other(tmp_path: Path) -> None:
    def judge(
        prompts: list[Any],
        completions: list[Any],
        completion_ids: list[Any],
        id: list[str],  # noqa: A002
        lucky: list[str],
        trainer_state: Any,
        log_extra: Any,
        log_metric: Any,
    ) -> list[float]:
        return tiny_trl.short_words(completions)

    trainer = tiny_trl.trainer(tmp_path, rewards=[judge], max_steps=1)
    engine = evoprompt.Engine([TEXT])
    evoprompt.attach(trainer, engine)
    trainer.train()
    assert engine.metrics()["rollouts_failed"] == 0


def test_rows_without_a_prompt_train_where_an_environment_names_its_own_arguments(
    tmp_path: Path,
) -> None:
    judge: Any = Judge()
    rows = [{"level": number} for number in range(8)]
    trainer = environment_trainer(tmp_path, rows, Levels, [judge])
    read = tiny_trl.prompts_read(trainer)
    evoprompt.attach(trainer, evoprompt.Engine([TEXT]))
    trainer.train()
    assert [prompt[0] for prompt in read] == [{"role": "system", "content": TEXT}] * 16
    assert [prompt[1:] for prompt in read] == judge.prompts


def test_an_environment_is_reset_with_the_prompt_of_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tiny_trl.questions(8)
    monkeypatch.setattr(Library, "prompts", [row["prompt"] for row in rows])
    trainer = environment_trainer(tmp_path, rows, Library, [tiny_trl.short_words])
    read = tiny_trl.prompts_read(trainer)
    evoprompt.attach(trainer, evoprompt.Engine([TEXT]))
    trainer.train()
    assert all(prompt[0]["content"] == TEXT for prompt in read)


def test_what_an_environment_is_given_tells_questions_with_one_prompt_and_id_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = [{"role": "user", "content": "what is"}]
    rows = [{"prompt": play, "id": "0", "level": level} for level in range(4)]
    trainer = environment_trainer(tmp_path, rows, Played, [tiny_trl.short_words])
    engine = evoprompt.Engine([TEXT])
    ids: set[str] = set()
    ask = engine.ask

    def note_ids(questions: Sequence[Question], rollouts: int) -> Any:
        ids.update(question.id for question in questions)
        return ask(questions, rollouts=rollouts)

    monkeypatch.setattr(engine, "ask", note_ids)
    evoprompt.attach(trainer, engine)
    trainer.train()
    assert len(ids) == 4
