"""The hosts of Table 1 that are not reinforcement learning, on the tiny world and policy."""
