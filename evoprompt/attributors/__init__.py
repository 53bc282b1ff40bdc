"""How rewards become importance weights."""

from evoprompt.attributors.adjusted import Adjusted
from evoprompt.attributors.window_mean import WindowMean

__all__ = ["Adjusted", "WindowMean"]
