"""What cannot work is said before Ray starts, in one line with the remedy."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping

import pytest
from evoprompt_verl import preflight
from omegaconf import DictConfig, OmegaConf

from evoprompt.support.errors import EvopromptError

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
        ("trainer.v1.trainer_mode", "separate_async", "several versions", "sync or colocate_async"),
        ("algorithm.filter_groups.enable", True, "would look unmeasured", "drop the override"),
        ("skip.rollout_tq.enable", True, "cached rollouts", "drop the override"),
        (f"{ROLLOUT}.val_kwargs.temperature", 0, "sampled as in training", "=1.0"),
        (
            f"{ROLLOUT}.agent.agent_loop_manager_class",
            "my.Manager",
            "no instruction would be placed",
            "evoprompt.agent_loop_manager_class",
        ),
        ("evoprompt.candidates_per_question", 2, "compares the rollouts", "'question'; set it"),
        ("evoprompt.instructions", [], "no seed instruction", "evoprompt.instructions="),
        ("evoprompt.required", ["<answer>"], "lacks <answer>", "change the seed"),
        (
            "evoprompt.proposer",
            "sentence-edit",
            "there is no task",
            "'evoprompt.proposer={name:reflection,lm:{model:openai/gpt-5-mini}}', or train without "
            "evolving, evoprompt.proposer=null",
        ),
        (CUTS, 8, "cuts the instruction off", "raise data.max_prompt_length"),
    ],
)
def test_a_run_that_could_not_work_is_refused(
    changed: Changed, key: str, value: object, finding: str, remedy: str
) -> None:
    message = refusal(changed({key: value}))
    assert finding in message
    assert remedy in message


@pytest.mark.parametrize(
    ("section", "entry"),
    [("async_training", "fully_async_main"), ("rollout", "one_step_off_policy.main_ppo")],
)
def test_an_entry_point_with_agent_loops_of_its_own_is_refused(
    sound: DictConfig, section: str, entry: str
) -> None:
    config = sound.copy()
    OmegaConf.update(config, section, {"nnodes": 1}, force_add=True)
    message = refusal(config)
    assert entry in message
    assert "verl.trainer.main_ppo or evoprompt-verl" in message


def test_a_preset_cannot_be_changed_by_halves(compose: Compose) -> None:
    config = compose("evoprompt.preset=default", hydra=True)
    assert "choose a preset by +evoprompt=default alone" in refusal(config)


def test_a_service_that_answers_passes(changed: Changed) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/retrieve"
        preflight.check_run(changed({"evoprompt.services": [address]}))
    assert f"nothing answers at {address}" in refusal(changed({"evoprompt.services": [address]}))


@pytest.mark.parametrize("address", ["retriever", "ftp://somewhere", "http://x:y/", "http://"])
def test_what_is_no_address_is_named(changed: Changed, address: str) -> None:
    message = refusal(changed({"evoprompt.services": [address]}))
    assert f"{address!r} is no address" in message
