"""A real TRL training that keeps its events in a folder, is resumed there, watched and reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny_trl
from contract_runs import EVOLVING, EngineSpec

import evoprompt
from evoprompt.errors import InputError
from evoprompt.report import write_report
from evoprompt.report.live import LivePage
from evoprompt.report.source import read_source

OTHER = EngineSpec(seeds=("look twice", "think then answer"), settings=EVOLVING.settings)


def trainer(folder: Path) -> Any:
    return tiny_trl.trainer(
        folder, max_steps=4, save_strategy="steps", save_steps=2, shuffle_dataset=False
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a training that has ended; its events are beside its checkpoints."""
    folder = tmp_path_factory.mktemp("out")
    trained = trainer(folder)
    evoprompt.attach(trained, EVOLVING.build(), log_dir=folder)
    trained.train()
    return folder


def test_it_is_reported_and_watched(folder: Path) -> None:
    (history,) = read_source(folder).histories
    assert history.last_step == 4
    assert history.admitted
    assert b"population_size" in LivePage([folder]).page(), "the settings are shown"
    write_report(folder)
    assert (folder / "report.html").stat().st_size > 100_000


def test_a_resume_appends_what_was_there_without_a_stop(folder: Path) -> None:
    whole = (folder / "events.jsonl").read_bytes()
    resumed = trainer(folder)
    evoprompt.attach(resumed, EVOLVING.build(), log_dir=folder)
    resumed.train(resume_from_checkpoint=str(folder / "checkpoint-2"))
    assert (folder / "events.jsonl").read_bytes() == whole


def test_a_training_that_begins_anew_overwrites_nothing(folder: Path, tmp_path: Path) -> None:
    before = (folder / "events.jsonl").read_bytes()
    anew = trainer(tmp_path)
    evoprompt.attach(anew, EVOLVING.build(), log_dir=folder)
    with pytest.raises(InputError, match=r"events of a training, and this one begins anew"):
        anew.train()
    assert (folder / "events.jsonl").read_bytes() == before


def test_a_folder_of_another_training_is_refused(folder: Path, tmp_path: Path) -> None:
    other = trainer(tmp_path)
    generate = other._generate_and_score_completions
    with pytest.raises(InputError, match=r"is of another training: seeds was"):
        evoprompt.attach(other, OTHER.build(), log_dir=folder)
    assert other._generate_and_score_completions == generate
