from __future__ import annotations

import subprocess
import sys

import pytest

from evoprompt.experiments.hosts.verl.configuration import checked, configuration
from evoprompt.support.errors import InputError


def test_settings_are_put_into_verls_own_tree() -> None:
    given = {"data.train_batch_size": 6, "+ray_kwargs.ray_init.num_gpus": 1}
    config = configuration(given)
    assert config.data.train_batch_size == 6
    assert config.ray_kwargs.ray_init.num_gpus == 1
    assert config.data.max_prompt_length == 512  # veRL's own value
    with pytest.raises(InputError, match=r"rollout\.nn is 3; required.*put \+ in front of a name"):
        configuration({"actor_rollout_ref.rollout.nn": 3})


def test_settings_that_do_not_go_together_are_refused_by_verl_itself() -> None:
    with pytest.raises(InputError, match="veRL refuses the configuration") as found:
        checked(
            {
                "actor_rollout_ref.rollout.name": "vllm",
                "data.train_batch_size": 100,
                "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 1,
                "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": 1,
                "trainer.n_gpus_per_node": 8,
            }
        )
    assert "divisible" in str(found.value)


def test_without_verl_the_host_says_how_to_get_it() -> None:
    code = (
        "import sys\n"
        "from importlib import metadata\n"
        "from evoprompt.support.errors import InputError\n"
        "from evoprompt.plugins import build\n"
        "installed = metadata.version\n"
        "def version(name):\n"
        "    if name == 'verl': raise metadata.PackageNotFoundError(name)\n"
        "    return installed(name)\n"
        "metadata.version = version\n"
        "for name in ('verl', 'ray', 'hydra', 'omegaconf', 'tensordict', 'transfer_queue'):\n"
        "    sys.modules[name] = None\n"
        "for host in ('verl', 'verl-cpu'):\n"
        "    try:\n        build('host', {'name': host, 'model': 'some/model'})\n"
        "    except InputError as error:\n        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stderr
    assert all(line.startswith("veRL is not installed; required: pip install") for line in lines)
