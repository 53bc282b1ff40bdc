"""veRL's checkpoints hold shards of a model; its own merger makes one model of them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from evoprompt.errors import InputError
from evoprompt.experiments.export.folder import has_weights

HUGGINGFACE = "huggingface"
"""Name of the folder beside veRL's shards with tokenizer, configuration and perhaps weights."""

_SHARDS = {"fsdp": "model_world_size_*_rank_*.pt", "megatron": "dist_ckpt"}


def merge_shards(actor: Path, target: Path) -> Path:
    """The folder of the whole model: that in ``actor``, or ``target`` with the merged shards.

    Args:
        actor: of a checkpoint, with shards and a folder ``huggingface``.
        target: to write, if the weights are not there already.

    Raises:
        InputError: there are no shards, veRL is not installed, or its merger failed.
    """
    saved = actor / HUGGINGFACE
    if has_weights(saved):
        return saved
    backend = next((name for name, glob in _SHARDS.items() if any(actor.glob(glob))), None)
    if backend is None:
        raise InputError(
            f"{actor} holds neither weights nor shards; required: the folder 'actor' of a "
            "checkpoint that veRL saved; check that actor.checkpoint.save_contents has 'model'"
        )
    if find_spec("verl") is None:
        raise InputError(
            f"{actor} holds shards of veRL; required: veRL, which puts them together; install "
            '"evoprompt[verl]", or let veRL save hf_model too: '
            "actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]"
        )
    command = ["merge", "--backend", backend, "--local_dir", str(actor)]
    done = subprocess.run(
        [sys.executable, "-m", "verl.model_merger", *command, "--target_dir", str(target)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode or not has_weights(target):
        last = " ".join(done.stderr.split())[-500:]
        raise InputError(f"veRL's merger could not read {actor}: {last}; required: whole shards")
    for file in saved.iterdir():  # what the merger leaves out
        if file.is_file() and not (target / file.name).exists():
            shutil.copy2(file, target / file.name)
    return target
