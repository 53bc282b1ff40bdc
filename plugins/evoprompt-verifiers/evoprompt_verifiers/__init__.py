"""Environments of the library ``verifiers``: a program and a metric of ``evoprompt.optimize``."""

from evoprompt_verifiers.environment import Played, played

__all__ = ["Played", "played"]
