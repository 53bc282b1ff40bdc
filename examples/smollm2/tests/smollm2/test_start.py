from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from bytewise import bytewise, tiny_model
from evoprompt_smollm2 import calculating
from evoprompt_smollm2.calculating import demonstrations
from evoprompt_smollm2.model import TEMPLATE
from evoprompt_smollm2.start import NOTE, Start, start
from transformers import AutoModelForCausalLM, AutoTokenizer

from evoprompt.agents import Limits


def test_what_is_learned_is_what_the_demonstrator_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = bytewise(TEMPLATE.read_text(encoding="utf-8"))
    monkeypatch.setattr(calculating, "LIMITS", Limits(5, 400, 400))  # a token is a byte here
    draw, rng = demonstrations(tokenizer), random.Random(0)
    shown = [draw(rng) for _ in range(60)]
    calling = [one for one in shown if "<tool_response>" in str(tokenizer.decode(one.ids))]
    assert len(calling) > 20
    for one in calling:
        said = str(tokenizer.decode([label for label in one.labels if label >= 0]))
        assert said.startswith("<tool_call>")
        assert said.endswith("<|im_end|>")
        assert "<tool_response>" not in said
        assert all(label in (-100, token) for token, label in zip(one.ids, one.labels, strict=True))


def test_a_folder_is_written_whole_with_a_note(tmp_path: Path) -> None:
    folder = tmp_path / "started"
    base = tiny_model(tmp_path / "base")
    what = Start(demonstrations=8, batch=4, micro_batch=2, learning_rate=1e-2)
    start(base, folder, what, demonstrations)
    note = json.loads((folder / NOTE).read_text())
    assert (note["demonstrations"], note["base"]) == (8, "base")
    before = AutoModelForCausalLM.from_pretrained(base)
    after = AutoModelForCausalLM.from_pretrained(folder)
    assert not before.lm_head.weight.equal(after.lm_head.weight)
    assert AutoTokenizer.from_pretrained(folder).chat_template is not None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "started"]
