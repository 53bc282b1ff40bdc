"""What happens to a generation batch, whatever trainer, prompt form and grouping it comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny_trl
from contract_runs import note_tells

import evoprompt
from evoprompt.hosting.prompts import Render, system_message, user_prefix
from evoprompt.support.errors import InputError

SEEDS = ("be brief", "think then answer", "look it up", "search first")


def engine(*seeds: str, **settings: Any) -> evoprompt.Engine:
    return evoprompt.Engine(seeds or SEEDS, config=evoprompt.EngineConfig(**settings), seed=5)


def test_rloo_trains_with_an_engine(tmp_path: Path) -> None:
    trainer = tiny_trl.trainer(tmp_path, rloo=True, reward_clip_range=(0.3, 0.6))
    attached = engine()
    told = note_tells(attached)
    evoprompt.attach(trainer, attached)
    trainer.train()
    logged = list(trainer._logs["rewards"]["short_words"])
    assert len(told) == 4
    assert [t.reward for t in told[-1]] == pytest.approx([min(max(r, 0.3), 0.6) for r in logged])
    assert [t.metrics["reward/short_words"] for t in told[-1]] == pytest.approx(logged)
    assert any(not 0.3 < r < 0.6 for r in logged)


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({"steps_per_generation": 2, "num_iterations": 2, "max_steps": 4}, 1),
        ({"gradient_accumulation_steps": 2, "max_steps": 3}, 3),
    ],
)
def test_an_engine_step_is_a_generation_batch(
    tmp_path: Path, settings: dict[str, Any], steps: int
) -> None:
    trainer = tiny_trl.trainer(tmp_path, **settings)
    attached = engine()
    told = note_tells(attached)
    evoprompt.attach(trainer, attached)
    trainer.train()
    assert attached.step == len(told) == steps
    assert not attached.assignments.pending
    batches = trainer.args.steps_per_generation
    assert {len(step) for step in told} == {8 * batches}


@pytest.mark.parametrize(
    ("chat", "render", "prompt"),
    [
        (
            True,
            user_prefix,
            [{"role": "user", "content": "be brief\n\nwhat is the capital of france ?"}],
        ),
        (False, system_message, "be brief\n\nwhat is the capital of france ?"),
    ],
)
def test_render_places_the_instruction(
    tmp_path: Path, chat: bool, render: Render, prompt: Any
) -> None:
    prompts = tiny_trl.Prompts()
    rows = tiny_trl.questions(chat=chat)
    trainer = tiny_trl.trainer(
        tmp_path, rows=rows, rewards=[prompts], max_steps=1, shuffle_dataset=False
    )
    read = tiny_trl.prompts_read(trainer)
    evoprompt.attach(trainer, engine("be brief"), render=render)
    trainer.train()
    assert read[:4] == [prompt] * 4
    assert prompts.seen[:4] == [rows[0]["prompt"]] * 4


def test_reward_functions_get_one_more_column_and_no_row_is_changed(tmp_path: Path) -> None:
    columns = []
    for attach in (False, True):
        prompts = tiny_trl.Prompts()
        trainer = tiny_trl.trainer(tmp_path, rewards=[prompts], max_steps=1)
        if attach:
            evoprompt.attach(trainer, engine())
        trainer.train()
        columns.append(prompts.columns)
    assert columns[1] - columns[0] == {"evoprompt_instruction"}
    rows = tiny_trl.questions(2) * 4
    before = [{**row, "prompt": list(row["prompt"])} for row in rows]
    trainer._generate_and_score_completions(rows)
    assert rows == before


def test_only_prompts_that_fit_the_model_are_asked(tmp_path: Path) -> None:
    template = 3 + 2 + 3 + 7  # system and user message, start of the answer, the question
    room = tiny_trl.POSITIONS - 6 - template
    prompts = tiny_trl.Prompts()
    trainer = tiny_trl.trainer(tmp_path, rewards=[prompts], max_steps=1)
    attached = evoprompt.attach(trainer, engine(" ".join(["look"] * room)))
    trainer.train()
    asked = len(prompts.seen)
    assert asked == 8
    attached.detach()
    evoprompt.attach(trainer, engine(" ".join(["look"] * (room + 1))))
    with pytest.raises(
        InputError, match=r"candidate c0 makes a prompt of 91 tokens .* at most 90, as max_comp"
    ):
        trainer.train()
    assert len(prompts.seen) == asked


def test_an_evaluation_prompt_too_long_is_refused(tmp_path: Path) -> None:
    rows = tiny_trl.questions(4)
    rows[2]["prompt"] = [{"role": "user", "content": " ".join(["what"] * 95)}]
    trainer = tiny_trl.trainer(tmp_path, evaluate_on=rows)
    evoprompt.attach(trainer, engine())
    with pytest.raises(InputError, match="question 'q2'"):
        trainer.evaluate()


def test_words_that_stand_in_many_questions_of_the_dataset_are_no_copy_of_one(
    tmp_path: Path,
) -> None:
    asked = [
        f"tell me what the old capital of {country} was in {year}"
        for country in tiny_trl.COUNTRIES
        for year in range(1900, 1908)
    ]
    rows = [{"prompt": [{"role": "user", "content": text}]} for text in asked]
    engine = evoprompt.Engine(["be brief"])
    trainer = tiny_trl.trainer(tmp_path, rows=rows, max_steps=1)
    evoprompt.attach(trainer, engine)
    trainer.train()
    seen = engine.replay.records[0].question.text
    added, against = engine.add({"instruction": f"be brief: {seen.partition(' in ')[0]} in 1850"})
    assert added is not None, against
    added, against = engine.add({"instruction": f"be brief: {seen}"})
    assert added is None
    assert "the text copies" in against


def test_questions_of_data_sets_that_are_each_numbered_from_0_are_told_apart(
    tmp_path: Path,
) -> None:
    rows = [{**row, "id": number % 4} for number, row in enumerate(tiny_trl.questions(8))]
    attached = engine("be brief")
    trainer = tiny_trl.trainer(tmp_path, rows=rows)
    evoprompt.attach(trainer, attached)
    trainer.train()
    assert len({record.question.id for record in attached.replay.records}) == 8
