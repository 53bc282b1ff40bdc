"""Binds an engine to veRL's V1 trainers; found through the hook in ``plugin``.

Read ``attachment.py`` first: one training step, from the questions to the rewards told. The three
ways in, ``attach``, ``+evoprompt=...`` and ``evoprompt-verl``, all end there. Only the process of
the task runner needs this package; the Ray workers are veRL's own. Importing it loads neither veRL,
Ray nor torch.
"""
