"""Environments of the library ``verifiers``: optimized without training, or in a training."""

from evoprompt_verifiers.environment import Played, played
from evoprompt_verifiers.training import ThroughGateway

__all__ = ["Played", "ThroughGateway", "played"]
