"""A person changes the population of a training under the real TRL, from another process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import tiny_trl
from transformers import TrainerCallback

import evoprompt
from evoprompt.experiments.eventfile import read_events


class Person(TrainerCallback):
    """Writes an instruction and retires another one while step 1 ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if state.global_step == 1:
            mine = self._folder / "mine.txt"
            mine.write_text("look it up twice , then answer", encoding="utf-8")
            self._pool("add", str(mine))
            self._pool("retire", "c0")

    def _pool(self, action: str, what: str) -> None:
        command = [sys.executable, "-m", "evoprompt", "pool", action, str(self._folder), what]
        subprocess.run(command, check=True)


def training(folder: Path) -> tuple[Any, evoprompt.Engine]:
    trainer = tiny_trl.trainer(folder, max_steps=4, save_strategy="steps", save_steps=2)
    log = evoprompt.EventLog(folder / "events.jsonl")
    engine = evoprompt.Engine(["be brief", "think first"], log=log, seed=1)
    evoprompt.attach(trainer, engine)
    return trainer, engine


def test_what_a_person_adds_and_retires_is_drawn_or_not_and_survives_a_kill(
    tmp_path: Path,
) -> None:
    trainer, engine = training(tmp_path)
    trainer.add_callback(Person(tmp_path))
    trainer.train()
    told = list(read_events(tmp_path / "events.jsonl"))
    done = [event for event in told if event["event"] == "intervened"]
    assert [(event["action"], event["done"]) for event in done] == [("add", True), ("retire", True)]
    added = done[0]["candidate"]
    texts = {one.id: one.text for one in engine.population.alive}
    assert texts[added] == "look it up twice , then answer"
    assert "c0" not in texts
    last = [event for event in told if event["event"] == "asked"][-1]
    assert set(last["probabilities"]) == {"c1", added}

    # As if it had been killed after its second step, and started again.
    again, _ = training(tmp_path)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert list(read_events(tmp_path / "events.jsonl")) == told
