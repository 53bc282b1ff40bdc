"""Export of a training as a folder to deploy, with the prompts of the training.

::

    FOLDER/
      config.json model.safetensors ...  as ``transformers`` saved them; or adapter_*, for LoRA
      tokenizer.json ...                 likewise
      chat_template.jinja                places the instruction by itself
      instruction.txt                    the best instruction
      tools.json                         the schemas of the policy's tools, if it has any
      evoprompt.json                     the recipe of the policy's prompts
      README.md                          the model card, with the command that serves it
"""

from __future__ import annotations

import json
import shutil
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path

from evoprompt.agents.recipe import Recipe
from evoprompt.experiments.export.card import card, serve_line
from evoprompt.experiments.export.source import checkpoint_of
from evoprompt.experiments.export.template import require_same_tokens, template_of
from evoprompt.support.errors import InputError
from evoprompt.support.storage import RECIPE_FILE, require_folder, write_whole
from evoprompt.support.text import format_error
from evoprompt.support.trainer_files import require_readable

__all__ = ["export"]

_TEMPLATE = "chat_template.jinja"
_EXCLUDED_FILES = (  # files that only a trainer needs to continue, and files that the export writes
    "optimizer*", "scheduler*", "scaler*", "rng_state*", "trainer_state.json", "training_args.bin",
    "evoprompt_*", "model_world_size_*", "optim_world_size_*", "extra_state_*", "fsdp_config.json",
    "zero_to_fp32.py", "latest", "chat_template.json", ".*", "events.jsonl", "README.md",
    "instruction.txt", "tools.json", RECIPE_FILE, _TEMPLATE,
)  # fmt: skip
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "adapter_model.bin")
_HOLDS_TEMPLATE = ("tokenizer_config.json", "processor_config.json", "preprocessor_config.json")


def export(
    source: Path,
    folder: Path,
    arm: str | None = None,
    seed: int | None = None,
) -> list[str]:
    """Write weights, tokenizer and best instruction of ``source`` to ``folder``.

    Args:
        source: see :func:`~evoprompt.experiments.export.source.checkpoint_of`.
        folder: new or empty.
        arm: of a run.
        seed: of a run.

    Returns:
        Lines to print.

    Raises:
        InputError: there is nothing to export, ``folder`` holds something, the recipe or the
            tokenizer is damaged, or the prompts of the export differ from those of the training.
        StateError: another file of the checkpoint is damaged.
    """
    require_folder(folder, "the export")
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"{folder} holds something; required: a new or empty folder; name another")
    saved = checkpoint_of(source, arm, seed)
    recipe = Recipe.read(saved)
    remedy = "export an older checkpoint, or save this one again"
    require_readable(saved, remedy)
    scratch = folder.with_name(f".{folder.name}.partial")
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        _copy_model(_model_folder(saved), scratch)
        _write_prompts(scratch, recipe)
        checked = "not checked, as transformers is not installed: whether it asks as trained"
        if find_spec("transformers") is not None:
            from transformers import AutoProcessor, AutoTokenizer

            is_processor = (scratch / "processor_config.json").exists()
            loads = AutoProcessor if is_processor else AutoTokenizer
            try:
                tokenizer = loads.from_pretrained(scratch)
            except Exception as error:  # transformers and tokenizers raise errors of any type
                raise InputError(
                    f"the tokenizer in {saved} cannot be read ({format_error(error)}); required: "
                    f"the files as the trainer wrote them; {remedy}"
                ) from error
            require_same_tokens(tokenizer, recipe, folder)
            checked = "checked: it asks a question by the very tokens of the training"
        if folder.is_dir():
            folder.rmdir()
        scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    description = f"{folder}: candidate {recipe.candidate}, step {recipe.step}"
    return [description, checked, "", serve_line(folder, recipe, folder)]


def _model_folder(checkpoint: Path) -> Path:
    """Return the folder with a checkpoint's weights as ``transformers`` loads them, and tokenizer.

    Raises:
        InputError: it has no weights.
    """
    inside = checkpoint / "actor" / "huggingface"  # of veRL
    for folder in (checkpoint, inside):
        if any(any(folder.glob(pattern)) for pattern in _WEIGHTS):
            return folder
    raise InputError(
        f"{checkpoint} holds no weights; required: weights as transformers saves them (FSDP: state "
        "dict type FULL_STATE_DICT; veRL: hf_model in actor.checkpoint.save_contents); shards of "
        "veRL are put together by: python -m verl.model_merger merge --backend fsdp --local_dir "
        f"{checkpoint / 'actor'} --target_dir {inside}"
    )


def _copy_model(saved: Path, folder: Path) -> None:
    """Copy a model's files, without those that only a trainer needs and its own template."""
    for file in saved.iterdir():
        if not file.is_file() or any(fnmatch(file.name, pattern) for pattern in _EXCLUDED_FILES):
            continue
        shutil.copy2(file, folder / file.name)
        if file.name in _HOLDS_TEMPLATE:
            settings = json.loads(file.read_text(encoding="utf-8"))
            settings.pop("chat_template", None)
            write_whole(folder / file.name, json.dumps(settings, indent=2, ensure_ascii=False))


def _write_prompts(folder: Path, recipe: Recipe) -> None:
    write_whole(folder / _TEMPLATE, template_of(recipe))
    write_whole(folder / "instruction.txt", recipe.best.instruction)
    if recipe.tools:
        write_whole(folder / "tools.json", json.dumps(recipe.schemas, indent=2, ensure_ascii=False))
    write_whole(folder / "README.md", card(folder, recipe))
    write_whole(folder / RECIPE_FILE, recipe.model_dump_json(indent=2))
