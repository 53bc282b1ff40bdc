"""One override on veRL's own command line, and everything the engine has can be set there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from evoprompt_verl import hydra_entry
from evoprompt_verl.hydra_entry import EvolvingAgentLoopManager, Preflight
from evoprompt_verl.preflight import MANAGER
from evoprompt_verl.settings import VerlSettings
from hydra.core.utils import JobReturn, JobStatus
from hydra.types import RunMode
from hydra.utils import get_class
from omegaconf import DictConfig, OmegaConf
from ray.exceptions import RayTaskError

from evoprompt.config import EngineConfig
from evoprompt.support.errors import AttachError, NothingEvolvedError

Compose = Callable[..., DictConfig]


@pytest.mark.parametrize("preset", ["inspo", "default"])
def test_every_setting_of_the_engine_is_in_the_composed_configuration(
    compose: Compose, preset: str
) -> None:
    config = compose(preset=preset)
    shown = OmegaConf.to_container(config.evoprompt, resolve=True)
    numbers = EngineConfig.model_validate({"preset": preset}).model_dump(mode="json")
    assert isinstance(shown, dict)
    assert {name: shown[name] for name in numbers} == numbers


def test_what_is_typed_reaches_the_engine_and_verl_is_told_what_co_evolution_needs(
    compose: Compose,
) -> None:
    config = compose(
        "evoprompt.proposer={name:mine,lm:{model:big}}",
        'evoprompt.instructions=["Use <search>, then: answer."]',
        "actor_rollout_ref.rollout.temperature=0.7",
        "actor_rollout_ref.rollout.val_kwargs.top_p=0.5",
        hydra=True,
    )
    found = VerlSettings.of(config)
    assert found.proposer == {"name": "mine", "lm": {"model": "big"}}
    assert found.instructions == ("Use <search>, then: answer.",)
    rollout = config.actor_rollout_ref.rollout
    assert rollout.agent.agent_loop_manager_class == MANAGER
    assert rollout.val_kwargs.do_sample is True
    assert rollout.val_kwargs.temperature == 0.7
    assert rollout.val_kwargs.top_p == 0.5, "what the user says wins"
    assert get_class(config.hydra.callbacks.evoprompt._target_) is Preflight


def test_without_the_override_verls_configuration_is_untouched(compose: Compose) -> None:
    config = compose(preset="", hydra=True)
    assert "evoprompt" not in config
    assert not config.hydra.callbacks
    assert "agent_loop_manager_class" not in config.actor_rollout_ref.rollout.agent


def test_the_preflight_ends_the_process_with_one_line_and_exit_code_2(
    compose: Compose, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        Preflight().on_run_start(compose(), config_name="ppo_trainer")
    printed = capsys.readouterr().err
    assert printed.startswith("evoprompt: no seed instruction was given")
    assert printed.count("\n") == 1


class Manager:
    """A user's own agent loop manager."""

    @classmethod
    def create(cls, **clients: object) -> Manager:
        return cls()

    def generate_sequences(self, prompts: object) -> None: ...


def test_a_manager_of_ones_own_is_bound_when_its_trainer_starts_to_fit_and_the_end_is_told(
    compose: Compose, trainers: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = compose(
        'evoprompt.instructions=["a"]',
        "evoprompt.proposer=null",
        "evoprompt.placement=user",
        f"evoprompt.agent_loop_manager_class={__name__}.Manager",
        f"trainer.default_local_dir={tmp_path}",
    )
    monkeypatch.setitem(sys.modules, __name__, sys.modules[Manager.__module__])
    happened: list[Any] = []

    def attach(trainer: Any, engine: Any, **settings: Any) -> Any:
        happened.append(("attach", trainer, engine.best.text, settings["render"].__name__))
        return SimpleNamespace(
            start=lambda manager: happened.append(("start", manager)),
            report_end=lambda: "all of 1 generations failed",
        )

    monkeypatch.setattr(hydra_entry, "attach", attach)
    monkeypatch.setattr(trainers, "fit", lambda self, m: happened.append(("fit", m)))
    before = trainers.fit
    manager: Any = EvolvingAgentLoopManager.create(config=config, llm_client=None)
    assert isinstance(manager, Manager)
    with pytest.raises(AttachError, match="before an engine was bound"):
        manager.generate_sequences(None)
    stranger, trainer = object(), SimpleNamespace(config=config, global_steps=0)
    trainers.fit(trainer, stranger)
    with pytest.raises(NothingEvolvedError, match=r"^nothing evolved: all of 1 .* are kept in /"):
        trainers.fit(trainer, manager)
    assert happened == [
        ("fit", stranger),
        ("attach", trainer, "a", "user_prefix"),
        ("start", manager),
        ("fit", manager),
    ]
    assert trainers.fit is before
    assert "generate_sequences" not in vars(manager)


def ended(error: Exception | None) -> JobReturn:
    """What hydra knows of a job."""
    job = JobReturn()
    job.status = JobStatus.FAILED if error else JobStatus.COMPLETED
    job.return_value = error
    return job


@pytest.mark.parametrize("remote", [False, True])
def test_a_run_in_which_nothing_evolved_ends_with_one_line_and_exit_code_1(
    remote: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    error: Exception = NothingEvolvedError("nothing evolved: no [key]")
    if remote:  # as the task runner's error arrives at the command
        wrapped: Any = RayTaskError
        error = wrapped("run", "Traceback ...", error).as_instanceof_cause()
    with pytest.raises(SystemExit, match=r"^1$"):
        Preflight().on_run_end(OmegaConf.create(), config_name="x", job_return=ended(error))
    assert capsys.readouterr().err == "evoprompt: nothing evolved: no [key]\n"


def test_a_sweep_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert hydra_entry.single(RunMode.RUN) == "RUN"
    with pytest.raises(SystemExit, match=r"^2$"):
        hydra_entry.single(RunMode.MULTIRUN)
    assert capsys.readouterr().err.startswith("evoprompt: --multirun would train")
