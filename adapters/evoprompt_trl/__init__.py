"""Binds an engine to a TRL ``GRPOTrainer`` or ``RLOOTrainer``, through the hook in ``plugin.py``.

Read ``attachment.py`` first: one generation batch, from the verdict that evolution is due to the
rewards told. Importing this package loads neither TRL nor torch.
"""
