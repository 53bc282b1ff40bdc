"""What a step is said to take, against the arithmetic by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from evoprompt.agents import Limits
from evoprompt.experiments.hosts.timing import Load, assumed_prompt, gpu_here, in_words
from evoprompt.experiments.requirements import ModelSize, model_size

QWEN = {"model_type": "qwen2", "max_position_embeddings": 32768}
SMALL = {
    **QWEN,
    "vocab_size": 151936,
    "hidden_size": 2048,
    "num_hidden_layers": 36,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "intermediate_size": 11008,
    "tie_word_embeddings": True,
}
LARGE = {
    **QWEN,
    "vocab_size": 152064,
    "hidden_size": 3584,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "intermediate_size": 18944,
    "tie_word_embeddings": False,
}
GEMMA = {"model_type": "gemma3", "text_config": {"vocab_size": 262208, "num_hidden_layers": 2}}


def size_of(folder: Path, config: object) -> ModelSize:
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    found = model_size(str(folder))
    assert found is not None
    assert found.exact
    return found


def test_sizes_are_those_of_the_model_s_own_configuration(tmp_path: Path) -> None:
    small, large = size_of(tmp_path, SMALL), size_of(tmp_path, LARGE)
    assert [round(one.parameters / 1e9, 2) for one in (small, large)] == [3.09, 7.62]
    assert [one.vocabulary for one in (small, large)] == [151936, 152064]
    # Keys and values of every layer, two bytes each.
    assert small.cache_bytes == 36 * 2 * 2 * 128 * 2
    assert large.cache_bytes == 28 * 2 * 4 * 128 * 2
    assert size_of(tmp_path, GEMMA).vocabulary == 262208


@pytest.fixture
def load(tmp_path: Path) -> Load:
    limits = Limits(calls=4, turn_tokens=500, observation_tokens=500)
    size = size_of(tmp_path, SMALL)
    return Load(
        size,
        2560,
        8,
        assumed_prompt(4096),
        limits,
        2,
        True,
        0.3,
        0.0,
        adapters=False,
        gpu=gpu_here(),
    )


def test_a_step_of_the_paper_s_size_is_the_arithmetic_by_hand(load: Load) -> None:
    found = load.seconds()
    # 320 rollouts of a GPU, padded to 300 + 4 x 500 + 5 x 250 tokens; two operations a weight.
    longest = 300 + 4 * 500 + 5 * 250
    each = 2 * load.size.parameters + 2 * 36 * 2048 * longest
    read = 320 * longest * each / (989e12 * 0.4)
    assert found["log-probabilities"] == pytest.approx(2 * read)
    assert found["update"] == pytest.approx(4 * read)
    assert found["tools"] == 0
    assert 20 < found["generation"] < 60
    # A specialist who read TRL had 155 s.
    assert 120 < sum(found.values()) < 190


def test_what_is_not_padded_has_fewer_tokens_and_more_gpus_share_them(load: Load) -> None:
    found, packed = load.seconds(), replace(load, padded=False).seconds()
    assert packed["update"] < found["update"] / 2
    assert packed["generation"] < found["generation"]
    many = replace(load, gpus=16).seconds()
    assert many["update"] == pytest.approx(found["update"] / 2)
    assert many["generation"] > found["generation"] / 2, "each GPU reads all weights"


def test_fewer_passes_less_memory_and_slow_tools_count(load: Load) -> None:
    found = load.seconds()
    assert replace(load, passes=0).seconds()["log-probabilities"] == 0
    little, much = (replace(load, cache=share).seconds()["generation"] for share in (0.1, 0.9))
    assert little > much
    slow = replace(load, call_seconds=0.02).seconds()
    assert slow["tools"] > 0
    assert slow["generation"] == found["generation"]
    adapted = replace(load, adapters=True).seconds()
    assert adapted["update"] == pytest.approx(found["update"] * 3 / 4)


@pytest.mark.parametrize(
    ("named", "known"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA of tomorrow", "H100"),
    ],
)
def test_the_gpu_of_this_machine_counts_where_it_is_known(
    load: Load, monkeypatch: pytest.MonkeyPatch, named: str, known: str
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda number: named)
    gpu = gpu_here()
    assert gpu.name == known
    slower = replace(load, gpu=gpu)
    assert slower.seconds()["update"] == pytest.approx(
        load.seconds()["update"] * 989e12 / gpu.flops
    )
    assert f"an estimate for {known} at 40%" in in_words(slower)


def test_attention_over_a_whole_pass_sees_all_of_its_tokens(load: Load) -> None:
    packed = replace(load, padded=False)
    found, masked = packed.seconds(), replace(packed, span=24576).seconds()
    mean = 300 + 2 * 500 + 3 * 125
    each = [2 * load.size.parameters + 2 * 36 * 2048 * seen for seen in (mean, 2 * 24576)]
    assert masked["update"] / found["update"] == pytest.approx(each[1] / each[0])
    assert masked["generation"] == found["generation"]
