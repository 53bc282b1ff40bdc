"""Optimizer of the instructions of a frozen model: ``evoprompt.optimize``, in :mod:`.api`."""
