"""What hosts that train a language model have in common: their settings, and what they need."""

from __future__ import annotations

from evoprompt.experiments.hosts.settings import HostSettings
from evoprompt.experiments.hosts.training import Training

__all__ = ["HostSettings", "Training"]
