"""Who is admitted to the population."""

from evoprompt.verifiers.race import Race
from evoprompt.verifiers.replay_top_n import ReplayTopN
from evoprompt.verifiers.unverified import Unverified

__all__ = ["Probation", "Race", "ReplayTopN", "Unverified"]
