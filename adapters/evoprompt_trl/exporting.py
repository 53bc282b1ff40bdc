"""What an export has to know of a TRL trainer."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from transformers.utils.chat_template_utils import get_json_schema

from evoprompt.export.exporter import Asking
from evoprompt_trl.host import SHOWN_TOOLS, HostTrainer

_LOOKED_AT = 64  # rows whose system messages are compared


def asking(trainer: HostTrainer) -> Asking:
    """How ``trainer`` turns conversations into tokens."""
    rows = list(islice(iter(getattr(trainer, "train_dataset", None) or ()), _LOOKED_AT))
    tools = getattr(trainer, "tools", None) or getattr(trainer, SHOWN_TOOLS, None) or ()
    return Asking(
        trainer.processing_class,
        rows,
        type(trainer).__name__,
        str(getattr(trainer.model.config, "_name_or_path", "")),
        getattr(trainer, "chat_template", None),
        [_schema(tool) for tool in tools],
        trainer.chat_template_kwargs,
        plain=bool(rows) and isinstance(rows[0].get("prompt"), str),
    )


def _schema(tool: Any) -> Mapping[str, Any]:
    return tool if isinstance(tool, Mapping) else get_json_schema(tool)
