"""What an export has to know of a TRL trainer."""

from __future__ import annotations

from itertools import islice

from evoprompt.experiments.export.exporter import Asking
from evoprompt_trl.host import HostTrainer
from evoprompt_trl.tools import schemas_of

_LOOKED_AT = 64  # rows whose system messages are compared


def asking(trainer: HostTrainer) -> Asking:
    """How ``trainer`` turns conversations into tokens."""
    rows = list(islice(iter(getattr(trainer, "train_dataset", None) or ()), _LOOKED_AT))
    return Asking(
        trainer.processing_class,
        rows,
        type(trainer).__name__,
        str(getattr(trainer.model.config, "_name_or_path", "")),
        getattr(trainer, "chat_template", None),
        schemas_of(trainer),
        trainer.chat_template_kwargs,
        plain=bool(rows) and isinstance(rows[0].get("prompt"), str),
    )
