from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from evoprompt_search_qa import protocol
from transformers import (
    AutoModelForCausalLM,
    FalconConfig,
    FalconForCausalLM,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
)
from trl.trainer.grpo_trainer import GRPOTrainer

from evoprompt.agents import Action, Episode, Sampling
from evoprompt.experiments.hosts.trl.generation import tokenizer_of
from evoprompt.experiments.hosts.trl.samplers import (
    TransformersSampler,
    VllmSampler,
)

QUESTIONS = ("Where was Mila Korv born?", "Where was Teo Brand born? Say it.")


def sampling(tokens: int) -> Sampling:
    return Sampling(tokens, protocol.SEARCHING.stop)


def episodes(*contexts: Sequence[int]) -> list[Episode]:
    return [Episode(list(ids)) for ids in contexts]


def trainer(model: Path, **settings: object) -> GRPOTrainer:
    """As much of a trainer as sampling needs."""
    policy = AutoModelForCausalLM.from_pretrained(model)
    accelerator = SimpleNamespace(
        unwrap_model=lambda wrapped, **_: wrapped,
        state=SimpleNamespace(deepspeed_plugin=None),
        device=torch.device("cpu"),
        num_processes=1,
    )
    usual = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}
    args = SimpleNamespace(generation_kwargs=settings.pop("generation_kwargs", None))
    chosen = {**usual, **settings}
    found = SimpleNamespace(model_wrapped=policy, accelerator=accelerator, args=args, **chosen)
    return cast(GRPOTrainer, found)


def contexts(model: Path, texts: Sequence[str] = QUESTIONS) -> list[list[int]]:
    tokenizer = tokenizer_of(str(model))
    from_chat: Any = tokenizer.apply_chat_template(
        [[{"role": "user", "content": text}] for text in texts],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
    )
    found: list[list[int]] = from_chat["input_ids"]
    return found


def greedy_by_hand(model: Path, ids: list[int], limit: int, penalty: float = 1.0) -> list[int]:
    """One context alone, without padding or cache."""
    tokenizer, policy = tokenizer_of(str(model)), AutoModelForCausalLM.from_pretrained(model)
    said: list[int] = []
    while len(said) < limit:
        logits = policy(input_ids=torch.tensor([ids + said])).logits[0, -1].detach()
        used = torch.tensor(sorted({*ids, *said}))
        logits[used] *= torch.where(logits[used] < 0, penalty, 1 / penalty)
        said.append(int(logits.argmax()))
        text = tokenizer.decode(said)
        if said[-1] == tokenizer.eos_token_id or "</search>" in text or "</answer>" in text:
            break
    return said


@pytest.mark.parametrize("at_once", [1, 2])
def test_an_action_is_what_the_model_says_alone_up_to_a_closing_tag(
    model: Path, at_once: int
) -> None:
    asked = contexts(model)
    tokenizer = tokenizer_of(str(model))
    tokenizer.pad_token = tokenizer.eos_token  # padding then looks like an end of text
    sampler = TransformersSampler(trainer(model), tokenizer, at_once)
    found = [action.ids for action in sampler(episodes(*asked), sampling(24), greedy=True)]
    assert found == [greedy_by_hand(model, ids, 24) for ids in asked]
    assert any("</search>" in tokenizer.decode(ids) for ids in found)


def test_turns_that_keep_their_keys_are_those_of_contexts_that_are_read_anew(model: Path) -> None:
    tokenizer = tokenizer_of(str(model))
    played = trainer(model)
    policy: Any = played.model_wrapped
    read_tokens: list[int] = []
    policy.register_forward_pre_hook(
        lambda _, __, given: read_tokens.append(given["input_ids"].numel()), with_kwargs=True
    )
    play = TransformersSampler(played, tokenizer, 64)
    open_episodes = episodes(*contexts(model), *contexts(model, ["What?", *QUESTIONS]))
    texts = ("Aro", "Bem is far", "it", "x" * 6, "no")
    for dropped in (1, 0, 2):
        before = len(read_tokens)
        actions = [action.ids for action in play(open_episodes, sampling(24), greedy=True)]
        assert actions == [greedy_by_hand(model, one.context, 24) for one in open_episodes]
        whole = sum(len(one.context) for one in open_episodes)
        assert max(read_tokens[before:]) < whole / 2 or not before
        for episode, action, text in zip(open_episodes, actions, texts, strict=False):
            episode.add_action(Action(action), "")
            episode.show(tokenizer.encode(f" {text}"), "")
        del open_episodes[dropped]
    assert len({len(episode.context) for episode in open_episodes}) == 2


def test_a_penalty_holds_in_evaluation_too_and_the_models_own_settings_never(model: Path) -> None:
    asked = episodes(*contexts(model))
    tokenizer = tokenizer_of(str(model))
    plain, own = trainer(model), trainer(model)
    models_own: Any = own.model_wrapped.generation_config
    models_own.update(repetition_penalty=9.0, min_p=1.0, top_k=1)
    torch.manual_seed(0)
    wanted = TransformersSampler(plain, tokenizer, 64)(asked, sampling(8), greedy=False)
    torch.manual_seed(0)
    assert TransformersSampler(own, tokenizer, 64)(asked, sampling(8), greedy=False) == wanted
    strict = TransformersSampler(trainer(model, repetition_penalty=9.0), tokenizer, 64)
    found = [action.ids for action in strict(asked, sampling(8), greedy=True)]
    assert found == [greedy_by_hand(model, ids, 8, penalty=9.0) for ids in contexts(model)]
    assert found != [greedy_by_hand(model, ids, 8) for ids in contexts(model)]


def test_the_parts_of_a_composite_model_keep_their_attention(model: Path) -> None:
    tokenizer = tokenizer_of(str(model))
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    config: Any = Gemma3Config(
        text_config={
            **sizes, "vocab_size": len(tokenizer) + 1, "image_token_index": len(tokenizer),
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4,
        },
        vision_config={**sizes, "num_attention_heads": 2, "image_size": 16, "patch_size": 8},
        mm_tokens_per_image=1,
    )  # fmt: skip
    config._attn_implementation = {"": "sdpa", "text_config": "sdpa", "vision_config": "eager"}
    played = trainer(model)
    policy: Any = Gemma3ForConditionalGeneration(config)
    played.model_wrapped = policy
    TransformersSampler(played, tokenizer, 64)(episodes([3, 4]), sampling(2), greedy=True)
    parts = config, config.text_config, config.vision_config
    assert [part._attn_implementation for part in parts] == ["sdpa", "sdpa", "eager"]


def test_a_model_whose_attention_is_fixed_is_sampled_without_a_warning(
    model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokenizer = tokenizer_of(str(model))
    config = FalconConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    played = trainer(model)
    policy: Any = FalconForCausalLM(config)
    played.model_wrapped = policy
    library = logging.getLogger("transformers")
    library.addHandler(caplog.handler)
    try:
        TransformersSampler(played, tokenizer, 64)(episodes([3, 4]), sampling(2), greedy=True)
    finally:
        library.removeHandler(caplog.handler)
    assert not caplog.messages


class Generation:
    """TRL's vLLM as far as it is used; keeps what it was asked."""

    def __init__(self) -> None:
        self.temperature = 1.0
        self.calls: list[tuple[str, object]] = []

    def sync_weights(self) -> None:
        self.calls.append(("sync", self.temperature))

    def generate(self, **given: Any) -> tuple[Any, Any, Any, None]:
        self.calls.append(("generate", (self.temperature, given)))
        prompts = given["prompts"]
        if not prompts:
            raise RuntimeError("the server is on fire")
        ids = [[5, 6] for _ in prompts]
        return prompts, ids, [[[-0.25], [None]] for _ in prompts], None


def test_vllm_gets_every_context_once_and_says_how_likely_its_tokens_were() -> None:
    generation = Generation()
    sampler = VllmSampler(cast(GRPOTrainer, SimpleNamespace(vllm_generation=generation)))
    first, second = sampler(episodes([1], [2, 3]), sampling(9), greedy=False)
    given = {"prompts": [[1], [2, 3]], "images": None, "num_generations": 1}
    assert generation.calls == [("generate", (1.0, given))]
    assert first.ids == second.ids == [5, 6]
    assert first.logprobs is not None
    assert first.logprobs[0] == -0.25
    assert first.logprobs[1] != first.logprobs[1]  # not a number, as TRL expects it


def by_vllm(generation: Generation) -> tuple[VllmSampler, SimpleNamespace]:
    """A sampler, and as much of its trainer as counts steps."""
    state = SimpleNamespace(global_step=3)
    found = SimpleNamespace(vllm_generation=generation, _last_loaded_step=-1, state=state)
    return VllmSampler(cast(GRPOTrainer, found)), found


def test_an_evaluation_gives_vllm_its_weights_once_whatever_the_number_of_turns() -> None:
    generation = Generation()
    sampler, trainer = by_vllm(generation)
    sampler.load_weights()
    for _ in range(105):
        sampler(episodes([1]), sampling(9), greedy=True)
    assert [name for name, _ in generation.calls] == ["sync", *["generate"] * 105]
    assert trainer._last_loaded_step == 3  # so that training does not do it again
    sampler.load_weights()
    assert [name for name, _ in generation.calls].count("sync") == 1
    trainer.state.global_step = 4
    sampler.load_weights()
    assert [name for name, _ in generation.calls].count("sync") == 2


def test_an_evaluation_by_vllm_leaves_nothing_to_chance() -> None:
    generation = Generation()
    sampler, _ = by_vllm(generation)
    sampler(episodes([1]), sampling(9), greedy=True)
    assert cast(tuple[float, object], generation.calls[0][1])[0] == 0.0
    assert generation.temperature == 1.0
    with pytest.raises(RuntimeError, match="on fire"):
        sampler([], sampling(9), greedy=True)
    assert generation.temperature == 1.0
