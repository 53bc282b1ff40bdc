"""LoRA weights merged into the model that they were trained on."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

from evoprompt.errors import InputError


def merged(folder: Path) -> Path:
    """Merges the adapter in ``folder`` and returns where the whole model is; in memory of the CPU.

    A folder without an adapter is returned as it is.

    Raises:
        InputError: ``peft`` is missing, or the base model is not where the adapter says.
    """
    if not (folder / "adapter_config.json").is_file():
        return folder
    if find_spec("peft") is None:
        raise InputError("merging LoRA weights needs peft; required: pip install peft")
    from peft import AutoPeftModelForCausalLM

    target = folder / "merged"
    try:
        model = AutoPeftModelForCausalLM.from_pretrained(folder, dtype="auto")
    except OSError as error:
        raise InputError(
            f"the base model of {folder} cannot be loaded ({error}); required: the model that "
            "adapter_config.json names; fetch it, or export without merging"
        ) from error
    model.merge_and_unload().save_pretrained(target)
    for file in folder.iterdir():
        if file.is_file() and not file.name.startswith("adapter_"):
            shutil.copy2(file, target / file.name)
    return target
