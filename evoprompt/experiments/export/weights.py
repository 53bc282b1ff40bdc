"""Weights as ``transformers`` loads them: shards put together, adapters merged."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from evoprompt.errors import InputError

_WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "adapter_model.bin")
_SHARDS = {"fsdp": "model_world_size_*_rank_*.pt", "megatron": "dist_ckpt"}


def has_weights(folder: Path) -> bool:
    """Whether ``folder`` holds weights as ``transformers`` loads them."""
    return any(any(folder.glob(pattern)) for pattern in _WEIGHTS)


def model_folders(checkpoint: Path, scratch: Path) -> list[Path]:
    """Where the files of a checkpoint's model are; those of an earlier folder win.

    veRL keeps tokenizer and configuration in ``actor/huggingface``, and beside it shards of the
    model, which its own merger puts together in ``scratch``.

    Raises:
        InputError: there are neither weights nor shards, or veRL cannot read them.
    """
    actor = checkpoint / "actor"
    for saved in (checkpoint, actor / "huggingface"):
        if has_weights(saved):
            return [saved]
    backend = next((name for name, glob in _SHARDS.items() if any(actor.glob(glob))), None)
    if backend is None:
        raise InputError(
            f"{checkpoint} holds neither weights nor shards; required: a checkpoint with weights "
            "as transformers saves them (FSDP: state dict type FULL_STATE_DICT), or with the "
            "folder 'actor' of veRL; check that actor.checkpoint.save_contents has 'model'"
        )
    if find_spec("verl") is None:
        raise InputError(
            f"{actor} holds shards of veRL; required: veRL, which puts them together; install "
            '"evoprompt[verl]", or let veRL save hf_model too: '
            "actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]"
        )
    command = ["merge", "--backend", backend, "--local_dir", str(actor)]
    done = subprocess.run(
        [sys.executable, "-m", "verl.model_merger", *command, "--target_dir", str(scratch)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode or not has_weights(scratch):
        last = " ".join(done.stderr.split())[-500:]
        raise InputError(f"veRL's merger could not read {actor}: {last}; required: whole shards")
    return [scratch, actor / "huggingface"]  # the merger leaves some files out


def merge_adapter(folder: Path) -> None:
    """Merges the LoRA adapter in ``folder``, if it is one, into its base model, on the CPU.

    Raises:
        InputError: ``peft`` is missing, or the base model is not where the adapter says.
    """
    if not (folder / "adapter_config.json").is_file():
        return
    if find_spec("peft") is None:
        raise InputError("merging LoRA weights needs peft; required: pip install peft")
    from peft import AutoPeftModelForCausalLM

    try:
        model = AutoPeftModelForCausalLM.from_pretrained(folder, dtype="auto")
    except OSError as error:
        raise InputError(
            f"the base model of {folder} cannot be loaded ({error}); required: the model that "
            "adapter_config.json names; fetch it, or export without merging"
        ) from error
    whole = model.merge_and_unload()
    for file in folder.glob("adapter_*"):
        file.unlink()
    whole.save_pretrained(folder)
