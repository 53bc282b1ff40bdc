"""How rewards become importance weights."""

from evoprompt.attributors.window_mean import WindowMean

__all__ = ["WindowMean"]
