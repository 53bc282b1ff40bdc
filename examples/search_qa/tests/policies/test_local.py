"""A Qwen2 with random weights: its text is noise, which shows every slip in padding and stops."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from evoprompt_search_qa.policies import local
from evoprompt_search_qa.policies.base import Dialogue, PolicyError, Sampling
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from evoprompt.errors import InputError
from evoprompt.types import Turn

os.environ.setdefault("HF_HUB_OFFLINE", "1")
torch.set_num_threads(1)

TEMPLATE = (
    "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
DIALOGUES = [
    Dialogue("Be brief.", "Who?"),
    Dialogue("Be brief.", "Who was the mayor of the city in which it all began?"),
    Dialogue("Be brief.", "Where?", (Turn("", "Given."), Turn("Hm.", "Shown."))),
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


@pytest.fixture(scope="module")
def policy(folder: Path) -> local.LocalPolicy:
    return local.load(str(folder))


def test_a_reply_does_not_depend_on_its_neighbours(folder: Path, policy: local.LocalPolicy) -> None:
    alone = local.load(str(folder), batch=1)
    sampling = Sampling(max_tokens=12)
    assert policy.complete(DIALOGUES, sampling) == alone.complete(DIALOGUES, sampling)


def test_a_reply_ends_with_the_stop_text(policy: local.LocalPolicy) -> None:
    (whole,) = policy.complete(DIALOGUES[:1], Sampling(max_tokens=30))
    assert isinstance(whole, str)
    stop = whole[4:6]
    (cut,) = policy.complete(DIALOGUES[:1], Sampling(max_tokens=30, stop=(stop,)))
    assert isinstance(cut, str)
    assert whole.startswith(cut)
    assert cut.endswith(stop)
    assert stop not in cut[:-1]
    assert len(cut) < len(whole)


def test_sampling_follows_torch_s_generator(policy: local.LocalPolicy) -> None:
    sampling = Sampling(max_tokens=20, temperature=1.0)
    replies = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        replies.append(policy.complete(DIALOGUES[:1], sampling))
    assert replies[0] == replies[1] != replies[2]


def test_a_prompt_without_room_costs_only_itself(policy: local.LocalPolicy) -> None:
    long = Dialogue("x" * 200, "Who?")
    first, second = policy.complete([long, DIALOGUES[0]], Sampling(max_tokens=12))
    assert isinstance(first, PolicyError)
    assert "must have at most 148" in str(first)
    assert [second] == policy.complete([DIALOGUES[0]], Sampling(max_tokens=12))


def test_without_a_chat_template_everything_is_one_text(folder: Path) -> None:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    assert local.renderer(tokenizer)(DIALOGUES[2]) == "Be brief.\n\nGiven.\n\nWhere?\n\nHm.Shown."


def test_with_one_the_instruction_is_the_system_message(folder: Path) -> None:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    tokenizer.chat_template = TEMPLATE
    written = local.renderer(tokenizer)(DIALOGUES[2])
    assert written == "[system]Be brief.[user]Given.\n\nWhere?[assistant]Hm.Shown."


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="which cannot be loaded"):
        local.load(str(tmp_path))


def test_a_device_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(InputError, match="which cannot be loaded"):
        local.load(str(folder), "cuda:99")
