"""The section ``evoprompt`` of a veRL configuration is checked by the engine's own models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cpu_support.plugin import SEEDS
from evoprompt_verl.settings import VerlSettings
from omegaconf import DictConfig, OmegaConf

from evoprompt.log.events import Notice
from evoprompt.support.errors import InputError


def config(**section: Any) -> DictConfig:
    return OmegaConf.create({"evoprompt": section})


def settings(**section: Any) -> VerlSettings:
    return VerlSettings.of(config(**section))


@pytest.mark.parametrize(
    ("section", "finding"),
    [
        ({"populaton_size": 3}, "unknown setting 'populaton_size'; did you mean 'population_size'"),
        ({"parents": 9}, "parents is 9, more than population_size 7"),
        ({"proposer": {"size": 3}}, "a mapping with a 'name' is required"),
        ({"placement": "below"}, "placement is 'below'"),
    ],
)
def test_a_bad_setting_is_one_line(section: dict[str, Any], finding: str) -> None:
    with pytest.raises(InputError, match=finding) as error:
        settings(**section)
    assert "\n" not in str(error.value)


def test_instructions_come_from_the_command_line_and_from_files(tmp_path: Path) -> None:
    file = tmp_path / "seed.txt"
    file.write_text("Think: then, answer.\nIn <answer> tags.\n")
    found = settings(instructions=["a"], instruction_files=[str(file)])
    assert found.seeds(None) == ["a", "Think: then, answer.\nIn <answer> tags."]
    with pytest.raises(InputError, match=r"absent\.txt cannot be read"):
        settings(instruction_files=[str(tmp_path / "absent.txt")]).seeds(None)


@pytest.mark.usefixtures("colours")
def test_a_task_brings_seeds_and_a_bank() -> None:
    engine = settings(task="colours", seed=3).build_engine()
    assert [candidate.text for candidate in engine.population.members] == list(SEEDS)
    assert type(engine.proposer).__name__ == "SentenceEdit"
    given = settings(task="colours", instructions=["Name a cold colour."]).build_engine()
    assert [candidate.text for candidate in given.population.members] == ["Name a cold colour."]


def test_the_log_of_an_earlier_run_is_kept_aside(tmp_path: Path) -> None:
    run = OmegaConf.create({"trainer": {"default_local_dir": str(tmp_path)}})
    settings().event_log(run, resumes=False).append(Notice(1, "first"))
    settings().event_log(run, resumes=False).append(Notice(1, "second"))
    assert len(settings().event_log(run, resumes=True)) == 1
    kept = tmp_path / "evoprompt_events.previous.jsonl"
    assert json.loads(kept.read_text())["message"] == "first"


def test_a_setting_changes_the_engine() -> None:
    found = settings(population_size=3, prune_every=2, proposer=None, instructions=["a"])
    engine = found.build_engine()
    assert engine.config.population_size == 3
    assert engine.config.prune_every == 2
    assert [candidate.text for candidate in engine.population.members] == ["a"]
