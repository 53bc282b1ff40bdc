"""Launchers of trials: on this machine, on a Ray cluster, as jobs of Slurm."""
