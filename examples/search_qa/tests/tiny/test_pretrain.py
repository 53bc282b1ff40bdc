from __future__ import annotations

import hashlib
import json
import random
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from evoprompt_search_qa import protocol
from evoprompt_search_qa.tiny.pretrain import SETTINGS, Demonstrations
from evoprompt_search_qa.tiny.task import SHIPPED_POLICY, SearchQa
from evoprompt_search_qa.tiny.vocabulary import build_tokenizer
from evoprompt_tiny.pretrain import NOTE, Pretraining, pretrain, save
from evoprompt_tiny.testing import digest_of
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

DRAWN, ASKED = "3bc3041d3a8d38fd", "98f528c2df26e787"
"""Digests; with others the shipped policy would have to be made anew."""


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def test_the_script_still_produces_the_shipped_format(tmp_path: Path) -> None:
    note = json.loads((SHIPPED_POLICY / NOTE).read_text(encoding="utf-8"))
    settings = Pretraining(**{**note["settings"], "steps": 4})
    tokenizer = build_tokenizer()
    policy, losses = pretrain(settings, tokenizer, Demonstrations(tokenizer).draw)
    save(tmp_path, settings, policy, tokenizer, losses)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == sorted(path.name for path in SHIPPED_POLICY.iterdir())
    shipped = load_file(SHIPPED_POLICY / "model.safetensors")
    made = load_file(tmp_path / "model.safetensors")
    assert {name: weight.shape for name, weight in made.items()} == {
        name: weight.shape for name, weight in shipped.items()
    }
    for name in ("config.json", "tokenizer.json"):
        made_text = (tmp_path / name).read_text(encoding="utf-8")
        assert json.loads(made_text) == json.loads(
            (SHIPPED_POLICY / name).read_text(encoding="utf-8")
        )


def test_the_shipped_policy_is_small_and_made_by_the_default_settings() -> None:
    note = json.loads((SHIPPED_POLICY / NOTE).read_text(encoding="utf-8"))
    assert note["settings"] == asdict(SETTINGS)
    assert 200_000 <= note["parameters"] <= 1_000_000
    assert (SHIPPED_POLICY / "model.safetensors").stat().st_size < 2_000_000
    policy = AutoModelForCausalLM.from_pretrained(SHIPPED_POLICY)
    tokenizer = AutoTokenizer.from_pretrained(SHIPPED_POLICY)
    assert policy.config.model_type == "llama"
    assert len(tokenizer) == policy.config.vocab_size


def test_only_what_the_demonstrator_wrote_is_learned() -> None:
    tokenizer = build_tokenizer()
    demonstrations, rng = Demonstrations(tokenizer), random.Random(0)
    for _ in range(50):
        example = demonstrations.draw(rng, "all")
        assert len(example.ids) == len(example.labels)
        pairs = list(zip(example.ids, example.labels, strict=True))
        learned = [token for token, label in pairs if label >= 0]
        assert learned == [label for label in example.labels if label >= 0]
        text = tokenizer.decode(learned)
        assert protocol.INFORMATION not in text
        assert protocol.RESPONSE not in text
        assert learned[-1] == tokenizer.eos_token_id


def test_the_policy_is_shown_and_asked_what_it_was_trained_on() -> None:
    tokenizer = build_tokenizer()
    assert digest_of(tokenizer, Demonstrations(tokenizer).draw) == DRAWN
    said = repr([(one.id, one.text, one.answers) for one in SearchQa().questions("test")])
    assert hashlib.blake2b(said.encode(), digest_size=8).hexdigest() == ASKED
