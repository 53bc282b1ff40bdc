"""Checks before Ray starts: a run that is certain to fail is refused with one line.

A veRL run spends minutes starting processes and loading weights; a mistake that shows only in a
worker is buried in its log. Nothing here starts Ray or touches a GPU.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from omegaconf import DictConfig, OmegaConf

from evoprompt.config import EngineConfig
from evoprompt.hosting.attachment import require_question_baseline
from evoprompt.lm.budget import Charge
from evoprompt.plugins import build
from evoprompt.support.errors import InputError
from evoprompt_verl.host import require_host
from evoprompt_verl.probing import probe
from evoprompt_verl.prompt_budget import check_room
from evoprompt_verl.settings import SECTION, VerlSettings
from evoprompt_verl.versions import check_versions

MANAGER = "evoprompt_verl.hydra_entry.EvolvingAgentLoopManager"
_MANAGER_KEY = "actor_rollout_ref.rollout.agent.agent_loop_manager_class"
ROLLOUT_N = "actor_rollout_ref.rollout.n"
_SAMPLING = ("temperature", "top_p", "top_k")
_UNCOMPARED = ("gae", "reinforce_plus_plus", "remax")
"""Advantage estimators of veRL that do not compare the rollouts of a question with each other."""
_PORTS = {"http": 80, "https": 443}
_ENTRIES = {
    "async_training": "verl.experimental.fully_async_policy.fully_async_main",
    "rollout": "verl.experimental.one_step_off_policy.main_ppo",
}
"""Entry points of veRL that are not supported, by a section that only their configuration has."""


def check_run(config: DictConfig) -> Mapping[str, Charge]:
    """Check a composed configuration that has a section ``evoprompt``.

    Returns:
        The cost of one request to each language model.

    Raises:
        InputError: the run could not work; the message says what to change.
        PluginError: a component is unknown or cannot be built.
    """
    check_versions()
    require_host()
    check_entry(config)
    settings = VerlSettings.of(config)
    chosen = OmegaConf.select(config, f"hydra.runtime.choices.{SECTION}") or settings.preset
    if chosen != settings.preset:
        raise InputError(
            f"{SECTION}.preset is {settings.preset!r} with +{SECTION}={chosen}; required: the "
            f"same; choose a preset by +{SECTION}={settings.preset} alone"
        )
    check_trainer(config, settings.numbers)
    manager = OmegaConf.select(config, _MANAGER_KEY)
    if manager != MANAGER:
        raise InputError(
            f"{_MANAGER_KEY} is {manager!r}, so no instruction would be placed; required: "
            f"{MANAGER}, which +{SECTION}=... sets; name your own manager in "
            f"{SECTION}.agent_loop_manager_class"
        )
    probe_costs = probe(settings)
    check_services(settings.services)
    task = build("task", settings.task) if settings.task else None
    check_room(config, settings.seeds(task), settings.render)
    return probe_costs


def check_entry(config: DictConfig) -> None:
    """Check that the configuration is that of veRL's ``main_ppo``.

    Raises:
        InputError: it is that of an entry point with a trainer and agent loops of its own.
    """
    for section, entry in _ENTRIES.items():
        if section in config:
            raise InputError(
                f"the configuration has a section {section!r}, that of {entry}, whose trainer has "
                "no queue to read rewards from, and would train without instructions; required: "
                "python -m verl.trainer.main_ppo or evoprompt-verl; for asynchronous rollouts "
                "there, set trainer.v1.trainer_mode=colocate_async"
            )


def check_trainer(config: DictConfig, engine: EngineConfig) -> None:
    """Check that veRL's settings leave instructions attributable, and verification honest.

    Raises:
        InputError: they do not.
    """
    rollout = config.actor_rollout_ref.rollout
    if not config.trainer.get("use_v1", False):
        raise InputError(
            "trainer.use_v1 is False, which chooses the deprecated RayPPOTrainer; required: the "
            "V1 trainer; drop trainer.use_v1 or set it to True"
        )
    mode = config.trainer.v1.trainer_mode
    if mode not in ("sync", "colocate_async"):
        raise InputError(
            f"trainer.v1.trainer_mode is {mode!r}; required: sync or colocate_async, the modes "
            "evoprompt was tested with: separate_async moves weights between GPUs of their own "
            "and lets a rollout span several versions of them"
        )
    if OmegaConf.select(config, "algorithm.filter_groups.enable"):
        raise InputError(
            "algorithm.filter_groups.enable is True: veRL then drops groups whose rewards are all "
            "equal before the engine receives them, and an instruction that solves or fails "
            "everything would look unmeasured; required: False; drop the override"
        )
    skipped = config.get("skip") or {}
    for name, section in skipped.items():
        if isinstance(section, Mapping) and section.get("enable"):
            raise InputError(
                f"skip.{name}.enable is True: cached rollouts would be attributed to instructions "
                "they were not made under; required: False; drop the override"
            )
    require_question_baseline(engine, "veRL compares the rollouts of a prompt")
    if engine.candidates_per_question not in ("auto", 1) and not shares_questions(config):
        raise InputError(
            f"candidates_per_question is {engine.candidates_per_question} and "
            "actor_rollout_ref.actor.use_prefix_grouper is True: veRL then takes the prompts of a "
            "group for equal; required: False; drop the override, or set candidates_per_question "
            "to 1"
        )
    engine.rollouts_per_candidate(int(rollout.n), ROLLOUT_N, is_compared(config))
    differing = [name for name in _SAMPLING if rollout.val_kwargs[name] != rollout[name]]
    if differing:
        name = differing[0]
        raise InputError(
            f"actor_rollout_ref.rollout.val_kwargs.{name} is {rollout.val_kwargs[name]} and "
            f"rollout.{name} is {rollout[name]}; required: the same, for new instructions are "
            "verified through veRL's validation path and must be sampled as in training; set "
            f"val_kwargs.{name}={rollout[name]}"
        )


def shares_questions(config: DictConfig) -> bool:
    """Return whether the rollouts of a group may have different prompts."""
    return not OmegaConf.select(config, "actor_rollout_ref.actor.use_prefix_grouper")


def is_compared(config: DictConfig) -> bool:
    """Return whether the advantage of a rollout depends on the others of its question."""
    return config.algorithm.adv_estimator not in _UNCOMPARED


def check_services(addresses: Sequence[str]) -> None:
    """Check that each of ``addresses`` is served, such as that of a tool's server.

    A tool that cannot reach its service fails in a worker, once a rollout, for the whole run.

    Raises:
        InputError: an address is invalid, or there is no response within five seconds.
    """
    for address in addresses:
        try:
            url = urlsplit(address)
            port = url.port or _PORTS[url.scheme]
        except (ValueError, KeyError):
            url, port = None, 0
        if url is None or not url.hostname:
            raise InputError(
                f"{SECTION}.services: {address!r} is no address; required: one such as "
                "http://127.0.0.1:8000/tool"
            )
        try:
            socket.create_connection((url.hostname, port), timeout=5).close()
        except OSError as error:
            raise InputError(
                f"nothing answers at {address} ({error}); required: a service that is up before "
                f"the run starts; start it, or mend the address in {SECTION}.services"
            ) from error
