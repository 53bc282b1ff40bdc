"""Trajectories worth learning from again."""

from evoprompt.replay.buffer import ReplayBuffer, worth_reading

__all__ = ["ReplayBuffer", "worth_reading"]
