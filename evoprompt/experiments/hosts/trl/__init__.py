"""Any task and any causal language model in TRL's ``GRPOTrainer``: the host ``trl``.

Read ``job.py`` first. Importing this package, its settings or its component loads neither TRL
nor torch.
"""
