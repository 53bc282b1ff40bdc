"""The tiny policy, which knows a few hundred words and the protocol of ``protocol.py``."""

from __future__ import annotations

from pathlib import Path

from evoprompt_tiny.sampler import CacheSampler
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from evoprompt_search_qa import protocol
from evoprompt_search_qa.policies.base import Policy
from evoprompt_search_qa.policies.revision import weights_revision
from evoprompt_search_qa.tiny.policy import load_policy


def load(folder: Path) -> Policy:
    """The policy that pretraining or a run wrote to ``folder``.

    Raises:
        InputError: the folder holds no policy.
    """
    return wrap(*load_policy(folder), name=str(folder), revision=weights_revision(folder))


def wrap(
    policy: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    name: str = "tiny",
    revision: str = "",
) -> Policy:
    """The policy for use by any method; its weights stay shared."""

    def sampler() -> CacheSampler:
        return CacheSampler(policy, tokenizer, protocol.TINY_LIMITS.response_tokens)

    return Policy(name, tokenizer, sampler, revision)
