from __future__ import annotations

import os
from pathlib import Path

import pytest

from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.errors import InputError
from evoprompt.eventlog import EventLog
from evoprompt.experiments.past_failures import Memory
from evoprompt.storage import STATE_FILE, save_state
from evoprompt.testing.fakes import FakeTrainer, ScriptedPolicy

SEED = "Write <answer>the sum</answer>."


def train(trial: Path, steps: int, reward: float = 0.0) -> Path:
    """A checkpoint of a training in which every rollout gets ``reward``."""
    log = EventLog(trial / "events.jsonl")
    engine = Engine([SEED], config=EngineConfig(population_size=1), log=log)
    FakeTrainer(ScriptedPolicy(lambda _: reward)).train(engine, steps)
    state = trial / "checkpoints" / f"checkpoint-{steps}" / STATE_FILE
    state.parent.mkdir(parents=True)
    save_state(state, engine.state_dict())
    return state


def test_the_newest_state_with_failures_is_read(tmp_path: Path) -> None:
    old = train(tmp_path / "trials" / "coevolve" / "seed-0", 2)
    new = train(tmp_path / "trials" / "coevolve" / "seed-1", 3)
    perfect = train(tmp_path / "trials" / "static" / "seed-0", 2, reward=1.0)
    for age, state in enumerate((perfect, new, old)):
        os.utime(state, (1e9 - age, 1e9 - age))
    assert Memory.of(tmp_path).state == new
    assert Memory.of(tmp_path, seed=0).state == old
    assert len(Memory.of(tmp_path).replay) > 0


def test_measured_candidates_come_with_their_last_weight(tmp_path: Path) -> None:
    train(tmp_path, 3)
    memory = Memory.of(tmp_path)
    [stats] = memory.candidate_stats
    assert (stats.candidate.id, stats.candidate.text, stats.weight) == ("c0", SEED, 0.0)
    assert memory.candidate(f"{SEED}\n").id == "c0"
    assert memory.candidate("Something else.").id == "parent"


def test_a_bare_checkpoint_has_failures_but_no_candidates(tmp_path: Path) -> None:
    state = train(tmp_path / "run", 3)
    (tmp_path / "run" / "events.jsonl").unlink()
    memory = Memory.of(state.parent)
    assert memory.candidate_stats == []
    assert len(memory.replay) > 0


EMPTY = '{"next": 0, "lines": "", "long": []}'
BAD_LINE = (
    f'{{"parts": {{"replay": {{"questions": {EMPTY}, "candidates": {EMPTY}, "told": "[",'
    ' "records": "[]"}}}'
)


@pytest.mark.parametrize("text", ["[]", BAD_LINE])
def test_a_state_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / STATE_FILE).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="cannot be read"):
        Memory.of(tmp_path)


def test_without_failures_it_says_what_it_needs(tmp_path: Path) -> None:
    train(tmp_path, 2, reward=1.0)
    with pytest.raises(InputError, match="no failures are remembered"):
        Memory.of(tmp_path)
