from __future__ import annotations

import pytest
from evoprompt_search_qa.verl.configuration import checked, configuration

from evoprompt.errors import InputError


def test_settings_are_put_into_verls_own_tree() -> None:
    config = configuration({"data.train_batch_size": 6, "trainer.logger": ["file"]})
    assert config.data.train_batch_size == 6
    assert list(config.trainer.logger) == ["file"]
    assert config.data.max_prompt_length == 512  # veRL's own value


def test_a_setting_that_verl_does_not_have_is_named() -> None:
    with pytest.raises(InputError, match=r"actor_rollout_ref\.rollout\.nn is 3; required") as found:
        configuration({"actor_rollout_ref.rollout.nn": 3})
    assert "put + in front of a name to add it" in str(found.value)


def test_a_setting_can_be_added_as_on_verls_command_line() -> None:
    config = configuration({"+ray_kwargs.ray_init.num_gpus": 1})
    assert config.ray_kwargs.ray_init.num_gpus == 1


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
