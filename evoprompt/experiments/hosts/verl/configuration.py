"""veRL's configuration tree, with settings put into it by their own names."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING

from evoprompt_verl.versions import check_versions

from evoprompt.support.errors import InputError

if TYPE_CHECKING:
    from omegaconf import DictConfig

Setting = object
"""A JSON value or a path."""


def configuration(settings: Mapping[str, Setting]) -> DictConfig:
    """Return the configuration of a veRL run.

    Args:
        settings: values by veRL's own dotted names. As on its command line, ``+`` in front of a
            name adds one that the tree does not have.

    Raises:
        InputError: veRL has no such setting, or takes no such value; veRL is missing, too old, or
            installed together with a TRL that is too new for it.
    """
    check_versions()
    # Not before the check: without veRL these are missing, too.
    from hydra import compose, initialize_config_module
    from hydra.core.global_hydra import GlobalHydra
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    GlobalHydra.instance().clear()
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer")
    for name, value in settings.items():
        try:
            OmegaConf.update(
                config,
                name.removeprefix("+"),
                value,
                merge=False,
                force_add=name.startswith("+"),
            )
        except OmegaConfBaseException as error:
            reason = str(error).splitlines()[0]
            raise InputError(
                f"{name} is {value!r}; required: a setting of veRL's configuration and a value it "
                f"takes ({reason}); see `python -m verl.trainer.main_ppo --cfg job`, and put + in "
                "front of a name to add it"
            ) from error
    return config


def checked(settings: Mapping[str, Setting]) -> DictConfig:
    """Return the configuration of a veRL run, after veRL's checks before anything starts.

    Raises:
        InputError: veRL has no such setting, or refuses the configuration.
    """
    config = configuration(settings)
    from omegaconf import OmegaConf
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()):
            warnings.simplefilter("ignore")
            validate_config(config, need_reference_policy(config), need_critic(config))
    except (AssertionError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"veRL refuses the configuration ({reason}); required: settings that go together; "
            "change host.arguments"
        ) from error
    OmegaConf.resolve(config)  # as veRL's task runner does: parts of it are sent alone
    return config
