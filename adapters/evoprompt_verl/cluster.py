"""Environment that the driver passes to the task runner on a Ray cluster that the run joins.

On a cluster that ``ray start`` made, the processes of a run have the environment and the working
directory of ``ray start``, not of the command that was typed. The preflight has looked at the
latter: at the key of the language model, at files by relative paths. So both travel, as parts of
the job's ``runtime_env``. The cluster that ``ray.init`` makes for one run inherits them anyway.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from ray._private.runtime_env.constants import RAY_JOB_CONFIG_JSON_ENV_VAR
from ray._private.utils import read_ray_address

from evoprompt.lm import LmSettings
from evoprompt_verl.probing import SPENT
from evoprompt_verl.workplace import DIRECTORY, enter

_RAY = "ray_kwargs.ray_init"
_HOOK = "worker_process_setup_hook"


def equip(config: DictConfig, section: Mapping[str, object]) -> None:
    """Add this process's key and working directory to the job of a run that joins a cluster.

    Written into the job's configuration, where ``ray.init`` reads it: veRL prints its own
    ``runtime_env`` and sends its configuration to every logger, and a key belongs in neither.
    What the user has put into ``ray_init.runtime_env`` or ``ray job submit`` stays as it is.

    Args:
        config: of the run.
        section: the settings of the engine, in which language models are named.
    """
    if not joins(config):
        return
    job = json.loads(os.environ.get(RAY_JOB_CONFIG_JSON_ENV_VAR, "{}"))
    runtime = job.get("runtime_env") or {}
    configured_env = OmegaConf.to_container(OmegaConf.select(config, f"{_RAY}.runtime_env") or {})
    assert isinstance(configured_env, dict)
    merged_env = {**runtime, **configured_env}
    variables = {name: os.environ[name] for name in credentials(section)}
    if SPENT in os.environ:
        variables[SPENT] = os.environ[SPENT]
    if not (merged_env.get("working_dir") or merged_env.get(_HOOK)):
        runtime[_HOOK] = f"{enter.__module__}.{enter.__qualname__}"
        variables[DIRECTORY] = str(Path.cwd())
    known_variables = {**(runtime.get("env_vars") or {}), **(configured_env.get("env_vars") or {})}
    new = {name: value for name, value in variables.items() if name not in known_variables}
    runtime["env_vars"] = {**(runtime.get("env_vars") or {}), **new}
    os.environ[RAY_JOB_CONFIG_JSON_ENV_VAR] = json.dumps({**job, "runtime_env": runtime})


def joins(config: DictConfig) -> bool:
    """Return whether ``ray.init`` will join an existing cluster."""
    address = OmegaConf.select(config, f"{_RAY}.address")
    if address is None:
        temporary = OmegaConf.select(config, f"{_RAY}._temp_dir")
        address = os.environ.get("RAY_ADDRESS") or read_ray_address(temporary)
    return address not in (None, "", "local")


def credentials(section: Mapping[str, object]) -> Sequence[str]:
    """Return the environment variables that the language models of ``section`` may read.

    They are the one that ``api_key_env`` names, and those that begin with the name of the model's
    provider, as far as they are set; set any other one in
    ``ray_kwargs.ray_init.runtime_env.env_vars``.
    """
    names: dict[str, None] = {}
    for lm in _language_models(section):
        provider = lm.model.partition("/")[0].upper().replace("-", "_")
        names |= {
            name: None
            for name in os.environ
            if name == lm.api_key_env or name.startswith(f"{provider}_")
        }
    return list(names)


def _language_models(value: object) -> Iterator[LmSettings]:
    """Return every setting ``lm`` in ``value``, nested proposers included."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name == "lm" and inner is not None:
                yield LmSettings.model_validate(inner)
            else:
                yield from _language_models(inner)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for inner in value:
            yield from _language_models(inner)
