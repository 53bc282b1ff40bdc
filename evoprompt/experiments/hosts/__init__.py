"""Hosts: trainers of a trial's policy, and models that are only sampled."""
