"""A training as a new user begins it: default settings, rows as they come, and an evaluation."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import tiny_trl
from contract_runs import RandomWords
from PIL import Image

import evoprompt
from evoprompt.experiments.report.source import read_source
from evoprompt.log.events import Proposed
from evoprompt.support.errors import InputError

STEPS = 16  # one more than from one generation to the next


def rows() -> list[dict[str, Any]]:
    """With columns that are no JSON, and a question that is no text."""
    return [
        {
            **row,
            "question": {"id": number},
            "answers": {"text": [f"capital{number}"], "answer_start": [number]},
            "seen": datetime(2026, 1, 1 + number % 28, tzinfo=UTC),
            "raw": bytes([number, 255]),
            "score": math.nan if number == 3 else float(number),
            "picture": {"bytes": png(number), "path": None},
        }
        for number, row in enumerate(tiny_trl.questions())
    ]


def png(shade: int) -> bytes:
    file = io.BytesIO()
    Image.new("L", (2, 2), shade).save(file, "PNG")
    return file.getvalue()


@dataclass
class Seen:
    """What the reward function was given, by the purpose of the rollouts."""

    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)

    def short(self, completions: list[Any], seen: list[Any], **columns: Any) -> list[float]:
        """The share of short words."""
        given = zip(seen, *(columns[name] for name in ("id", "raw", "picture")), strict=True)
        self.rows.setdefault(evoprompt.purpose(), []).extend(given)
        return tiny_trl.short_words(completions)


@dataclass
class Done:
    """A training that has ended."""

    folder: Path
    engine: evoprompt.Engine
    seen: Seen
    logged: list[dict[str, float]]

    @property
    def events(self) -> list[dict[str, Any]]:
        """Everything that happened."""
        return list(self.engine.log)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    from datasets import Dataset
    from datasets import Image as Picture

    folder, seen = tmp_path_factory.mktemp("log"), Seen()
    trainer = tiny_trl.trainer(
        tmp_path_factory.mktemp("out"),
        rewards=[seen.short],
        max_steps=STEPS,
        shuffle_dataset=False,
        eval_strategy="steps",
        eval_steps=8,
        evaluate_on=tiny_trl.questions(1),  # TRL asks for one; the real one is below
    )
    data = Dataset.from_list(rows()).cast_column("picture", Picture())
    trainer.train_dataset, trainer.eval_dataset = data, data.select(range(4))
    config = evoprompt.EngineConfig(accept="not-worse")  # which asks rows again
    engine = evoprompt.Engine(["be brief"], proposer=RandomWords(), config=config)
    evoprompt.attach(trainer, engine, log_dir=folder)
    trainer.train()
    return Done(folder, engine, seen, trainer.state.log_history)


def test_rows_of_any_columns_are_asked_again_as_they_were(done: Done) -> None:
    trained = {name: rest for rest in done.seen.rows["train"] for name in [rest[1]]}
    verified = done.seen.rows["verify"]
    assert len(verified) > 100
    for when, name, raw, picture in verified:
        then, _, before, image = trained[name]
        assert (when, raw) == (then, before)
        assert picture.tobytes() == image.tobytes()


def test_a_reward_function_can_tell_what_a_rollout_is_for(done: Done) -> None:
    counts = {why: len(rows) for why, rows in done.seen.rows.items()}
    assert counts["train"] == STEPS * 8
    # Of one row TRL takes no spread, so that a chunk may hold one more.
    assert counts["verify"] >= done.engine.verification_rollouts
    assert counts["evaluate"] == 2 * 4 * 4


def test_gold_answers_in_a_mapping_reach_the_screening(done: Done) -> None:
    answers = {answer for one in done.engine.replay.records for answer in one.question.answers}
    assert {f"capital{number}" for number in range(2 * STEPS)} == answers
    alive, best = done.engine.population.members, done.engine.best
    proposals = [
        evoprompt.Proposal.of(text) for text in ("answer in words", "say capital7 at once")
    ]
    (kept,) = done.engine.screening.screen(proposals, alive, best, STEPS)
    assert kept.text == "answer in words"
    refusals = [event for event in done.engine.screening.events if isinstance(event, Proposed)]
    assert [event.rule for event in refusals if event.rule] == ["leak"]


def test_an_evaluation_is_an_event_and_is_drawn(done: Done) -> None:
    logged = [line for line in done.logged if "eval_reward" in line]
    events = [event for event in done.events if event["event"] == "evaluated"]
    assert [event["step"] for event in events] == [8, 16]
    for event, line in zip(events, logged, strict=True):
        assert event["metrics"]["reward"] == line["eval_reward"]
        assert event["main_metric"]["name"] == "reward"
    (trial,) = read_source(done.folder).trials
    assert [value for _, value in trial.history.evaluations] == [
        line["eval_reward"] for line in logged
    ]
    assert read_source(done.folder).problems == []


@pytest.mark.parametrize("rloo", [False, True])
@pytest.mark.parametrize("steps", [{"max_steps": 1}, {"max_steps": -1, "num_train_epochs": 1}])
def test_fewer_rows_than_a_generation_batch_takes_are_refused(
    tmp_path: Path, rloo: bool, steps: dict[str, Any]
) -> None:
    settings: dict[str, Any] = {"steps_per_generation": 2, "rloo": rloo, **steps}
    trainer = tiny_trl.trainer(tmp_path, rows=tiny_trl.questions(3), **settings)
    message = (
        r"^the dataset has 3 rows, and a generation batch takes 4 \(generation_batch_size 16, "
        r"num_generations 4\), .*; required: at least 4 rows; add some, or lower per_device_train"
    )
    with pytest.raises(InputError, match=message):
        evoprompt.attach(trainer, evoprompt.Engine(["be brief"]))
    assert "_evoprompt_attachment" not in vars(trainer)
    trainer = tiny_trl.trainer(tmp_path, rows=tiny_trl.questions(4), **settings)
    engine = evoprompt.Engine(["be brief"])
    evoprompt.attach(trainer, engine)
    trainer.train()
    assert engine.step == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda row: {"text": "what ?"}, r"^the dataset has no column 'prompt', but 'text'; req"),
        (lambda row: {**row, "prompt": None}, "the column 'prompt' holds None"),
        (lambda row: {**row, "lucky": object()}, r"'lucky' holds values of type object.*lucky_wo"),
    ],
)
def test_rows_that_cannot_work_are_refused_in_a_line(
    tmp_path: Path, change: Any, said: str
) -> None:
    trainer = tiny_trl.trainer(tmp_path, rewards=[tiny_trl.lucky_word])
    trainer.train_dataset = [change(row) for row in tiny_trl.questions(4)]
    engine = evoprompt.Engine(["be brief"], proposer=RandomWords())
    with pytest.raises(InputError, match=said) as raised:
        evoprompt.attach(trainer, engine)
    assert "\n" not in str(raised.value)
    assert "_evoprompt_attachment" not in vars(trainer)
