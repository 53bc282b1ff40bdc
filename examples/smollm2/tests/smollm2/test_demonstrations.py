from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from bytewise import bytewise, tiny_model
from evoprompt_smollm2 import demonstrations as module
from evoprompt_smollm2.demonstrations import FORMS, TOLD, demonstrations
from evoprompt_smollm2.model import TEMPLATE
from evoprompt_smollm2.reading import SPLITS, Reading, ReadingSettings

from evoprompt.agents import Limits
from evoprompt.errors import InputError
from evoprompt.experiments.cli import main

ROW = {
    "id": "0",
    "source": "nq",
    "question": "On which river lies Ulm?",
    "pieces": ["Ulm: Ulm is a town. Ulm lies on the Danube."],
    "answers": ["Donau", "Danube"],
}


@pytest.fixture
def task(tmp_path: Path) -> Reading:
    for split in (*SPLITS, "demonstrations"):
        (tmp_path / f"{split}.jsonl").write_text(json.dumps(ROW) + "\n")
    return Reading(ReadingSettings(questions=tmp_path, placement="user"))


def test_the_answer_has_the_form_that_was_asked_for_in_the_words_of_the_text(
    task: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LIMITS", Limits(0, 400, 0))  # a token is a byte here
    tokenizer = bytewise(TEMPLATE.read_text(encoding="utf-8"))
    draw, rng, seen = demonstrations(task, tokenizer), random.Random(0), set()
    for _ in range(60):
        one = draw(rng)
        whole = str(tokenizer.decode(one.ids))
        said = str(tokenizer.decode([label for label in one.labels if label >= 0]))
        assert "Danube" in said
        assert said.endswith("<|im_end|>")
        for form, texts in TOLD.items():
            if any(f"{text}\n" in whole for text in texts):
                seen.add(form)
                assert (said == "Danube<|im_end|>") == (form == "alone")
                assert ("Ulm" in said) == (form == "reason")
    assert seen == set(FORMS)


def test_questions_that_were_not_prepared_are_named(task: Reading) -> None:
    (task.settings.questions / "demonstrations.jsonl").unlink()
    with pytest.raises(InputError, match=r"required: questions that nothing else asks; .*prepare"):
        task.demonstrations()


def test_a_model_is_started_by_the_command(
    task: Reading, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(
        f"task: {{name: reading, questions: '{task.settings.questions}'}}\n"
        f"host: {{name: trl, model: '{tiny_model(tmp_path / 'base')}'}}\n"
        "engine: {proposer: null}\nbudget: 8\nevaluate_every: 8\n"
    )
    folder = tmp_path / "started"
    options = ["--config", str(config), "--demonstrations", "8"]
    monkeypatch.setattr(module, "LIMITS", Limits(0, 400, 0))
    with pytest.raises(SystemExit) as ended:
        main(["reading", "start", str(tmp_path / "base"), str(folder), *options])
    assert ended.value.code in (0, None)
    assert json.loads((folder / "supervised.json").read_text())["demonstrations"] == 8
