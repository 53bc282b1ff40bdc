"""What an export has to know of a veRL trainer, and where its checkpoints keep a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from omegaconf import OmegaConf

from evoprompt.experiments.export.exporter import Asking
from evoprompt_verl.dataset import prompts_of, tools_of
from evoprompt_verl.host import HostTrainer

_LOOKED_AT = 64  # rows whose system messages are compared


def asking(trainer: HostTrainer) -> Asking:
    """How the agent loops of ``trainer`` turn conversations into tokens."""
    config = trainer.config
    given = config.data.get("apply_chat_template_kwargs")
    settings: Mapping[str, Any] = {}
    if given:
        settings = cast(Mapping[str, Any], OmegaConf.to_container(given, resolve=True))
    rows = [{"prompt": list(one)} for one in prompts_of(trainer.train_dataset)[:_LOOKED_AT]]
    return Asking(
        trainer.tokenizer,
        rows,
        f"veRL {type(trainer).__name__}",
        str(OmegaConf.select(config, "actor_rollout_ref.model.path") or ""),
        OmegaConf.select(config, "actor_rollout_ref.model.custom_chat_template"),
        tools_of(config),
        settings,
    )


def saved_model(checkpoint: Path) -> Path:
    """Where a checkpoint of veRL keeps tokenizer, configuration and perhaps weights."""
    return checkpoint / "actor" / "huggingface"
