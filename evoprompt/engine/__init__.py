"""The loop and its parts; only :class:`Engine` is public."""

from evoprompt.engine.engine import Engine

__all__ = ["Engine"]
