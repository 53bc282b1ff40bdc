"""Who is admitted to the population."""

from evoprompt.verifiers.replay_top_n import ReplayTopN

__all__ = ["ReplayTopN"]
