"""Instructions of a policy that is not trained: ``evoprompt.optimize``, in :mod:`.api`."""
