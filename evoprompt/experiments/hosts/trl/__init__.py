"""Host ``trl``: any task and any causal language model in TRL's ``GRPOTrainer``.

Read ``job.py`` first. Importing this package, its settings or its component loads neither TRL
nor torch.
"""
