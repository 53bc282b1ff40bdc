"""What hosts that train a language model have in common: their settings, and what they need."""

from __future__ import annotations

from evoprompt.hosts.prompts import chat_lengths, forbidden, require_none
from evoprompt.hosts.settings import HostSettings
from evoprompt.hosts.training import Training

__all__ = ["HostSettings", "Training", "chat_lengths", "forbidden", "require_none"]
