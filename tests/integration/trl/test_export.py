"""What a training under TRL leaves is loaded and asked as anybody would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bytewise
import peft
import pytest
import tiny_trl
import torch
from command_line import stdout_of
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.trainer.grpo_trainer import GRPOTrainer

import evoprompt
from evoprompt.agents.recipe import Recipe
from evoprompt.experiments.export import export
from evoprompt.experiments.export.source import checkpoint_of
from evoprompt.hosting.prompts import Render, user_prefix

QUESTION = "what is the capital of peru ?"


def letters(completions: list[Any], **columns: Any) -> list[float | None]:
    """The share of letters in what was said."""
    said = [str(completion[-1]["content"]) for completion in completions]
    return [(1 + sum(map(str.isalpha, one))) / (1 + len(one)) for one in said]


def trained(
    folder: Path,
    render: Render = user_prefix,
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


def test_an_export_of_a_checkpoint_asks_and_answers_as_the_training_did(
    training: tuple[Path, evoprompt.Attachment], tmp_path: Path
) -> None:
    (output, attachment), folder = training, tmp_path / "out"
    assert checkpoint_of(output) == output / "checkpoint-2"
    said = stdout_of("export", output, folder)
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
    assert "vllm serve . --served-model-name evoprompt" in (folder / "README.md").read_text()
    assert not list(tmp_path.glob(".*"))
    assert not (folder / "training_args.bin").exists()
    # Who goes on training from the checkpoint gets the model's own template.
    assert AutoTokenizer.from_pretrained(output / "checkpoint-2").chat_template == bytewise.HERMES
    for place in (output, output / "checkpoint-1", folder):
        assert stdout_of("best", place).strip() in ("be brief", "think then answer")


def test_a_render_function_of_ones_own_is_said_to_have_no_export(tmp_path: Path) -> None:
    trained(tmp_path, lambda prompt, one: user_prefix(prompt, one))
    with pytest.raises(
        evoprompt.InputError, match=r"a function of evoprompt.hosting.prompts places"
    ):
        checkpoint_of(tmp_path / "checkpoint-2")


def test_lora_is_exported_as_an_adapter(tmp_path: Path) -> None:
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
    adapter = tmp_path / "adapter"
    stdout_of("export", tmp_path / "run", adapter)
    assert (adapter / "adapter_model.safetensors").exists()
    assert "--enable-lora --max-lora-rank 8" in (adapter / "README.md").read_text()
    ids = torch.tensor([Recipe.read(adapter).probes[0]])
    with torch.no_grad():
        trained_model: Any = trainer.model
        wanted = trained_model.eval()(ids).logits
        found = AutoModelForCausalLM.from_pretrained(adapter)(ids).logits
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
