"""A Qwen2 with random weights: its text is noise, which shows every slip in padding and stops."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from evoprompt_search_qa.policies import local
from evoprompt_search_qa.policies.base import Policy
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from evoprompt.agents import Broken, Episode, Sampling, encode
from evoprompt.errors import InputError

os.environ.setdefault("HF_HUB_OFFLINE", "1")
torch.set_num_threads(1)

PROMPTS = [
    "Be brief. Who?",
    "Be brief. Who was the mayor of the city in which it all began?",
    "Be brief. Where?",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model and its tokenizer of single characters, as any folder that transformers loads."""
    path = tmp_path_factory.mktemp("model")
    symbols = ["<eos>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    bpe = models.BPE(vocab={symbol: at for at, symbol in enumerate(symbols)}, merges=[])
    tokenizer = Tokenizer(bpe)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, eos_token="<eos>", clean_up_tokenization_spaces=False
    )
    fast.save_pretrained(path)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(symbols),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=160,
        initializer_range=0.6,
        eos_token_id=0,
    )
    Qwen2ForCausalLM(config).save_pretrained(path)  # type: ignore[no-untyped-call]
    return path


def said(
    policy: Policy, prompts: Sequence[str], sampling: Sampling, *, greedy: bool = True
) -> list[str | Broken]:
    """What the policy says, as text."""
    tokenizer = policy.tokenizer
    episodes = [Episode(encode(tokenizer, prompt)) for prompt in prompts]
    return [
        one if isinstance(one, Broken) else str(tokenizer.decode(one.ids, skip_special_tokens=True))
        for one in policy.sampler()(episodes, sampling, greedy=greedy)
    ]


@pytest.fixture(scope="module")
def policy(folder: Path) -> Policy:
    return local.load(str(folder))


def test_a_reply_does_not_depend_on_its_neighbours(folder: Path, policy: Policy) -> None:
    alone = local.load(str(folder), batch=1)
    assert said(policy, PROMPTS, Sampling(12)) == said(alone, PROMPTS, Sampling(12))


def test_a_reply_ends_with_the_stop_text(policy: Policy) -> None:
    (whole,) = said(policy, PROMPTS[:1], Sampling(30))
    assert isinstance(whole, str)
    stop = whole[4:6]
    (cut,) = said(policy, PROMPTS[:1], Sampling(30, (stop,)))
    assert isinstance(cut, str)
    assert whole.startswith(cut)
    assert cut.endswith(stop)
    assert stop not in cut[:-1]
    assert len(cut) < len(whole)


def test_sampling_follows_torch_s_generator(policy: Policy) -> None:
    replies = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        replies.append(said(policy, PROMPTS[:1], Sampling(20), greedy=False))
    assert replies[0] == replies[1] != replies[2]


def test_a_prompt_without_room_costs_only_itself(policy: Policy) -> None:
    first, second = said(policy, ["x" * 200, PROMPTS[0]], Sampling(12))
    assert isinstance(first, Broken)
    assert "must have at most 148" in first.error
    assert [second] == said(policy, PROMPTS[:1], Sampling(12))


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="which cannot be loaded"):
        local.load(str(tmp_path))


def test_a_device_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(InputError, match="which cannot be loaded"):
        local.load(str(folder), "cuda:99")
