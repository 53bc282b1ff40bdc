"""What a training under TRL leaves is loaded and asked as anybody would."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import bytewise
import peft
import pytest
import tiny_trl
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.trainer.grpo_trainer import GRPOTrainer

import evoprompt
from evoprompt.agents.recipe import Recipe
from evoprompt.experiments.cli import main
from evoprompt.experiments.export import export
from evoprompt.experiments.export.source import checkpoint_of
from evoprompt.experiments.export.template import trained_tokens
from evoprompt.experiments.report.source import read_source
from evoprompt.prompts import user_prefix

QUESTION = "what is the capital of peru ?"


def letters(completions: list[Any], **columns: Any) -> list[float | None]:
    """The share of letters in what was said."""
    said = [str(completion[-1]["content"]) for completion in completions]
    return [(1 + sum(map(str.isalpha, one))) / (1 + len(one)) for one in said]


def trained(
    folder: Path,
    render: evoprompt.prompts.Render = user_prefix,
    engine: evoprompt.Engine | None = None,
) -> evoprompt.Attachment:
    model = bytewise.tiny_model(folder / "model")
    trainer = GRPOTrainer(
        model=str(model),
        reward_funcs=[letters],
        args=tiny_trl.config(folder, max_steps=2, save_strategy="steps", save_steps=1),
        train_dataset=Dataset.from_list(tiny_trl.questions()),
    )
    engine = engine or evoprompt.Engine(["be brief", "think then answer"], seed=1)
    attachment = evoprompt.attach(trainer, engine, render=render)
    trainer.train()
    return attachment


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, evoprompt.Attachment]:
    folder = tmp_path_factory.mktemp("training")
    return folder, trained(folder)


def command(*words: str | Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert ended.value.code == 0


def test_an_export_of_a_checkpoint_asks_and_answers_as_the_training_did(
    training: tuple[Path, evoprompt.Attachment], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (output, attachment), folder = training, tmp_path / "out"
    assert checkpoint_of(output) == output / "checkpoint-2"
    command("export", output, folder)
    said = capsys.readouterr().out
    assert "checked: it asks a question by the very tokens of the training" in said
    assert f"vllm serve {folder} " in said
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    asked = tokenizer.apply_chat_template(
        [{"role": "user", "content": QUESTION}], add_generation_prompt=True, return_dict=True
    )["input_ids"]
    best = attachment.engine.best
    own: Any = bytewise.bytewise(bytewise.HERMES)
    wanted = own.apply_chat_template(
        user_prefix([{"role": "user", "content": QUESTION}], best),
        add_generation_prompt=True,
        return_dict=True,
    )["input_ids"]
    assert asked == wanted
    trainer = attachment._trainer  # type: ignore[attr-defined]
    loaded = AutoModelForCausalLM.from_pretrained(folder)
    ids = torch.tensor([asked])
    with torch.no_grad():
        assert torch.equal(loaded(ids).logits, trainer.model.eval()(ids).logits)
    assert (folder / "instruction.txt").read_text() == best.instruction
    pool = json.loads((folder / "pool.json").read_text())
    assert [one["id"] for one in pool] == ["c0", "c1"]
    assert all(one["weight"] for one in pool)
    assert "vllm serve . --served-model-name evoprompt" in (folder / "README.md").read_text()
    assert not list(tmp_path.glob(".*"))
    assert not (folder / "training_args.bin").exists()
    # Who goes on training from the checkpoint gets the model's own template.
    assert AutoTokenizer.from_pretrained(output / "checkpoint-2").chat_template == bytewise.HERMES
    for place in (output, output / "checkpoint-1", folder):
        command("best", place)
        assert capsys.readouterr().out.strip() in ("be brief", "think then answer")


def test_a_report_is_drawn_of_a_checkpoint_an_output_folder_and_an_export(
    training: tuple[Path, evoprompt.Attachment], tmp_path: Path
) -> None:
    whole, cut = read_source(training[0]), read_source(training[0] / "checkpoint-1")
    for source, step in ((whole, 2), (cut, 1)):
        (history,) = source.histories
        assert [life.text for life in history.lives.values()] == ["be brief", "think then answer"]
        assert all(life.weights[-1][0] == step for life in history.lives.values())
        assert f"step {step}," in source.title
        assert "no events beside them" in source.problems[0]
    command("export", training[0] / "checkpoint-1", tmp_path / "out")
    command("report", tmp_path / "out")
    assert "be brief" in (tmp_path / "out" / "report.html").read_text()
    assert not (tmp_path / "out" / "report.png").exists(), "a picture of nothing"


def test_with_a_log_beside_it_a_checkpoint_tells_its_events_up_to_there(tmp_path: Path) -> None:
    log = evoprompt.EventLog(tmp_path / "events.jsonl")
    trained(tmp_path, engine=evoprompt.Engine(["be brief", "think then answer"], log=log))
    for place, steps in ((tmp_path, 2), (tmp_path / "checkpoint-1", 1)):
        (history,) = read_source(place).histories
        assert history.last_step == steps
    lines = (tmp_path / "events.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "events.jsonl").write_text("".join(lines[:3]))
    assert "has 3 events" in " ".join(read_source(tmp_path / "checkpoint-1").problems)


def test_events_that_lie_above_by_chance_are_not_those_of_a_checkpoint(
    training: tuple[Path, evoprompt.Attachment], tmp_path: Path
) -> None:
    (tmp_path / "events.jsonl").write_text("of another training\n")
    shutil.copytree(training[0] / "checkpoint-1", tmp_path / "output" / "checkpoint-1")
    source = read_source(tmp_path / "output" / "checkpoint-1")
    assert "no events beside them" in source.problems[0]


@pytest.mark.parametrize(
    ("pool", "found"),
    [
        ("[{}]", "0.id is missing"),
        ('[{"id": "a", "components": {}, "parents": ["a"]}]', "before a parent"),
    ],
)
def test_a_damaged_pool_is_named(
    training: tuple[Path, evoprompt.Attachment], tmp_path: Path, pool: str, found: str
) -> None:
    shutil.copy(training[0] / "checkpoint-1" / "evoprompt.json", tmp_path)
    (tmp_path / "pool.json").write_text(pool)
    with pytest.raises(evoprompt.InputError, match=found):
        read_source(tmp_path)


def test_a_render_function_of_ones_own_is_said_to_have_no_export(tmp_path: Path) -> None:
    trained(tmp_path, lambda prompt, one: user_prefix(prompt, one))
    with pytest.raises(evoprompt.InputError, match=r"a function of evoprompt.prompts places"):
        checkpoint_of(tmp_path / "checkpoint-2")


def test_lora_is_exported_as_adapter_or_merged(tmp_path: Path) -> None:
    base = bytewise.tiny_model(tmp_path / "base")
    model = AutoModelForCausalLM.from_pretrained(base)
    settings: Any = peft.LoraConfig(r=4, target_modules=["q_proj"], init_lora_weights=False)
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=[letters],
        args=tiny_trl.config(tmp_path / "run", max_steps=1, save_strategy="steps", save_steps=1),
        train_dataset=Dataset.from_list(tiny_trl.questions()),
        processing_class=AutoTokenizer.from_pretrained(base, padding_side="left"),
        peft_config=settings,
    )
    evoprompt.attach(trainer, evoprompt.Engine(["be brief"]))
    trainer.train()
    adapter, whole = tmp_path / "adapter", tmp_path / "whole"
    command("export", tmp_path / "run", adapter)
    command("export", tmp_path / "run", whole, "--merge")
    assert (adapter / "adapter_model.safetensors").exists()
    assert "--enable-lora --max-lora-rank 8" in (adapter / "README.md").read_text()
    assert not list(whole.glob("adapter_*"))
    recipe = Recipe.read(whole)
    ids = torch.tensor([trained_tokens(AutoTokenizer.from_pretrained(whole), recipe, QUESTION)])
    with torch.no_grad():
        trained_model: Any = trainer.model
        wanted = trained_model.eval()(ids).logits
        for folder in (adapter, whole):
            found = AutoModelForCausalLM.from_pretrained(folder)(ids).logits
            torch.testing.assert_close(found, wanted)


def test_a_tokenizer_that_loads_as_another_is_found_out(tmp_path: Path) -> None:
    output = tmp_path / "run"
    # It loads as a Qwen2Tokenizer.
    trainer = tiny_trl.trainer(output, max_steps=1, save_strategy="steps", save_steps=1)
    evoprompt.attach(trainer, evoprompt.Engine(["be brief"]))
    trainer.train()
    with pytest.raises(evoprompt.InputError, match="see whether Qwen2Tokenizer is the tokenizer"):
        export(output, tmp_path / "out")
    assert not (tmp_path / "out").exists()
