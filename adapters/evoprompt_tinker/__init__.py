"""Binds an engine to the RL recipes of ``tinker-cookbook``, through the hook in ``plugin.py``.

Read ``attachment.py`` first, then ``batch.py``: one training batch, from the verdict that evolution
is due to the rewards told. Importing this package loads neither tinker-cookbook nor torch.
"""
