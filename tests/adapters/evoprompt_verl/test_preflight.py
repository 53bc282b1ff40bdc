"""What cannot work is said before Ray starts, in one line with the remedy."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path

import pytest
from cpu_support.world import rows, write_rows
from evoprompt_verl import preflight
from omegaconf import DictConfig

from evoprompt.errors import EvopromptError, InputError

Compose = Callable[..., DictConfig]
Changed = Callable[[Mapping[str, object]], DictConfig]

ROLLOUT = "actor_rollout_ref.rollout"
CUTS = "data.max_prompt_length"


def refusal(config: DictConfig) -> str:
    with pytest.raises(EvopromptError) as error:
        preflight.check_run(config)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_sound_run_passes(sound: DictConfig) -> None:
    preflight.check_run(sound)


@pytest.mark.usefixtures("colours")
def test_a_task_brings_what_a_run_needs(changed: Changed) -> None:
    config = {"task": "colours", "proposer": "sentence-edit", "instructions": []}
    preflight.check_run(changed({f"evoprompt.{key}": value for key, value in config.items()}))


@pytest.mark.parametrize(
    ("key", "value", "finding", "remedy"),
    [
        ("trainer.use_v1", False, "RayPPOTrainer", "set it to True"),
        ("trainer.v1.trainer_mode", "separate_async", "'separate_async'", "sync or colocate_async"),
        ("algorithm.filter_groups.enable", True, "would look unmeasured", "drop the override"),
        ("skip.rollout_tq.enable", True, "cached rollouts", "drop the override"),
        (f"{ROLLOUT}.n", 1, "no baseline", "raise it"),
        (f"{ROLLOUT}.val_kwargs.temperature", 0, "sampled as in training", "=1.0"),
        (f"{ROLLOUT}.val_kwargs.top_p", 0.9, "val_kwargs.top_p is 0.9", "top_p=1"),
        (
            f"{ROLLOUT}.agent.agent_loop_manager_class",
            "my.Manager",
            "no instruction would be placed",
            "evoprompt.agent_loop_manager_class",
        ),
        ("evoprompt.candidates_per_question", 2, "in the workers", "the TRL adapter"),
        ("evoprompt.populaton_size", 3, "unknown setting", "did you mean 'population_size'"),
        ("evoprompt.instructions", [], "no seed instruction", "evoprompt.instructions="),
        ("evoprompt.required", ["<answer>"], "lacks <answer>", "mend the seed"),
        ("evoprompt.proposer", "sentence-edit", "sentence bank", "give the task one"),
        (CUTS, 8, "cuts the instruction off", "raise data.max_prompt_length"),
        ("actor_rollout_ref.model.path", "/nowhere", "cannot be loaded", "check actor_rollout_ref"),
    ],
)
def test_a_run_that_could_not_work_is_refused(
    changed: Changed, key: str, value: object, finding: str, remedy: str
) -> None:
    message = refusal(changed({key: value}))
    assert finding in message
    assert remedy in message


def test_a_preset_cannot_be_changed_by_halves(compose: Compose) -> None:
    config = compose("evoprompt.preset=default", hydra=True)
    assert "choose a preset by +evoprompt=default alone" in refusal(config)


def test_the_longest_training_question_counts(
    changed: Changed, tmp_path: Path, questions: Path
) -> None:
    long = rows(1)
    long[0]["prompt"] = [{"role": "user", "content": "x" * 40}]
    write_rows(tmp_path / "long.parquet", long)
    preflight.check_run(changed({CUTS: 40}))
    files = [str(questions), str(tmp_path / "long.parquet")]
    found = refusal(changed({CUTS: 40, "data.train_files": files}))
    assert "tokens; required: at most data.max_prompt_length 40" in found


def test_data_that_only_the_trainer_can_read_is_left_to_it(changed: Changed) -> None:
    preflight.check_run(changed({"data.train_files": "hdfs://somewhere/train.parquet"}))


def test_a_service_that_answers_passes(changed: Changed) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/retrieve"
        preflight.check_run(changed({"evoprompt.services": [address]}))
    assert f"nothing answers at {address}" in refusal(changed({"evoprompt.services": [address]}))


@pytest.mark.parametrize("address", ["retriever", "ftp://somewhere", "http://x:y/", "http://"])
def test_what_is_no_address_is_named(changed: Changed, address: str) -> None:
    message = refusal(changed({"evoprompt.services": [address]}))
    assert f"{address!r} is no address" in message


def with_versions(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    def version(distribution: str) -> str:
        if distribution not in versions:
            raise metadata.PackageNotFoundError(distribution)
        return versions[distribution]

    monkeypatch.setattr(metadata, "version", version)


@pytest.mark.parametrize("trl", [None, "1.11.0", "1.11.9", "0.29.0"])
def test_packages_that_work_together_pass(monkeypatch: pytest.MonkeyPatch, trl: str | None) -> None:
    with_versions(monkeypatch, verl="0.9.1", **({"trl": trl} if trl else {}))
    preflight.check_versions()


@pytest.mark.parametrize(
    ("versions", "finding"),
    [
        ({}, "veRL is not installed"),
        ({"verl": "0.8.2"}, "veRL 0.8.2 is too old; required: verl>=0.9.0"),
        ({"verl": "0.9.1", "trl": "1.12.0"}, "TRL 1.12.0 is installed beside veRL 0.9.1"),
        ({"verl": "0.9.0", "trl": "2.0"}, 'pip install "trl==1.11.0"'),
    ],
)
def test_packages_that_do_not_are_named(
    monkeypatch: pytest.MonkeyPatch, versions: dict[str, str], finding: str
) -> None:
    with_versions(monkeypatch, **versions)
    with pytest.raises(InputError, match=re.escape(finding)):
        preflight.check_versions()


def test_a_later_verl_that_moved_what_is_wrapped_is_named(
    sound: DictConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    from verl.trainer.ppo.v1 import replay_buffer, trainer_base

    monkeypatch.setattr(replay_buffer.ReplayBuffer, "sample", lambda self, keys: None)
    found = refusal(sound)
    assert "ReplayBuffer has sample(keys); required: sample(global_steps, partition_id" in found
    assert "docs/verl.md" in found
    monkeypatch.delattr(trainer_base, "PPOTrainer")
    assert "has no V1 trainer where it was" in refusal(sound)
