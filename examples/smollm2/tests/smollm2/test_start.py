from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from bytewise import bytewise, tiny_model
from evoprompt_calculator.pretrain import demonstrations
from evoprompt_smollm2.model import TEMPLATE
from evoprompt_smollm2.start import LIMITS, NOTE, Start, start
from transformers import AutoModelForCausalLM, AutoTokenizer

from evoprompt.cli import main


def test_what_is_learned_is_what_the_demonstrator_wrote() -> None:
    tokenizer = bytewise(TEMPLATE.read_text(encoding="utf-8"))
    draw, rng = (
        demonstrations(tokenizer, replace(LIMITS, turn_tokens=400, observation_tokens=400)),
        random.Random(0),
    )
    shown = [draw(rng, "careful") for _ in range(20)]
    for one in shown:
        said = str(tokenizer.decode([label for label in one.labels if label >= 0]))
        assert said.startswith("<tool_call>")
        assert said.endswith("<|im_end|>")
        assert "<tool_response>" not in said
        assert "<tool_response>" in str(tokenizer.decode(one.ids))
        assert all(label in (-100, token) for token, label in zip(one.ids, one.labels, strict=True))


def test_a_folder_is_written_whole_with_a_note(tmp_path: Path) -> None:
    folder = tmp_path / "started"
    base = tiny_model(tmp_path / "base")
    start(base, folder, Start(demonstrations=8, batch=4, micro_batch=2, learning_rate=1e-2))
    note = json.loads((folder / NOTE).read_text())
    assert (note["demonstrations"], note["base"]) == (8, "base")
    before = AutoModelForCausalLM.from_pretrained(base)
    after = AutoModelForCausalLM.from_pretrained(folder)
    assert not before.lm_head.weight.equal(after.lm_head.weight)
    assert AutoTokenizer.from_pretrained(folder).chat_template is not None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "started"]


def test_what_is_there_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(SystemExit) as ended:
        main(["model", "start", str(tmp_path), str(tmp_path)])
    assert ended.value.code == 2
    assert "required: a new folder" in " ".join(capsys.readouterr().err.split())
