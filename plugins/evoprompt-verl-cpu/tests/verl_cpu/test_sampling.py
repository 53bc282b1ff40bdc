"""What ends an action of the CPU's rollout backend, beside the policy itself."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from evoprompt_verl_cpu.sampling import SamplingRequest, Stops, decode
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

LETTERS = "abc</>"


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    """One token a letter, and one that closes a tag and goes on."""
    words = {word: number for number, word in enumerate(["<end>", *LETTERS, ">b"])}
    inner = Tokenizer(models.WordLevel(words, unk_token="<end>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    inner.decoder = decoders.Fuse()
    make: Any = PreTrainedTokenizerFast
    found: PreTrainedTokenizerFast = make(tokenizer_object=inner, eos_token="<end>")
    return found


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    make: Any = LlamaForCausalLM
    config = LlamaConfig(
        vocab_size=8,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
    )
    found: LlamaForCausalLM = make(config).eval()
    return found


def test_an_action_ends_where_a_text_is_complete(tokenizer: PreTrainedTokenizerFast) -> None:
    stops = Stops(frozenset([0]), ("</a>",), tokenizer)
    words = tokenizer.get_vocab()
    ids = [words[word] for word in ("b", "<", "/", "a", ">")]
    assert [stops.end(ids[: n + 1]) for n in range(5)] == [False, False, False, False, True]
    assert not stops.end([ids[0], ids[-1]])
    assert stops.end([*ids[:-1], words[">b"]])
    assert stops.end([0])


def test_a_request_is_cut_off_at_its_stop_and_others_go_on(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    requests = [SamplingRequest([1, 2], seed, 1.0, 60) for seed in range(4)]
    decode(model, requests, Stops(frozenset(), ("a",), tokenizer), lambda: False)
    told = ["".join(tokenizer.convert_ids_to_tokens(request.tokens)) for request in requests]
    assert all(request.finished for request in requests)
    assert all("a" not in text[:-1] for text in told)
    assert any(text.endswith("a") and len(text) < 60 for text in told)


def test_what_is_sampled_does_not_depend_on_the_company(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    def sampled(requests: list[SamplingRequest]) -> list[list[int]]:
        decode(model, requests, Stops(frozenset([0]), (), tokenizer), lambda: False)
        return [request.tokens for request in requests]

    together = sampled([SamplingRequest([1, 2], seed, 1.0, 12) for seed in range(3)])
    assert together == [sampled([SamplingRequest([1, 2], seed, 1.0, 12)])[0] for seed in range(3)]
