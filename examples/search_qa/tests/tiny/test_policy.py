from __future__ import annotations

from pathlib import Path

import pytest
import torch
from evoprompt_search_qa.tiny.policy import load_policy, save_policy
from evoprompt_search_qa.tiny.task import SHIPPED_POLICY

from evoprompt.errors import InputError


def test_a_policy_that_was_saved_is_the_same_when_loaded(tmp_path: Path) -> None:
    policy, tokenizer = load_policy(SHIPPED_POLICY)
    with torch.no_grad():
        policy.lm_head.weight.add_(1.0)
    # Twice: a folder that exists is replaced whole.
    for _ in range(2):
        save_policy(policy, tokenizer, tmp_path / "policy")
    again, same = load_policy(tmp_path / "policy")
    saved = again.state_dict()
    assert all(torch.equal(weight, saved[name]) for name, weight in policy.state_dict().items())
    assert same.get_vocab() == tokenizer.get_vocab()
    assert [path.name for path in tmp_path.iterdir()] == ["policy"]


def test_a_folder_without_a_policy_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no model\.safetensors"):
        load_policy(tmp_path)
