"""Host ``verl`` of ``evoprompt run``: any task under veRL's V1 trainer.

Read ``host.py`` first, then ``job.py``. Episodes are played and scored in ``loop.py``, which
veRL's agent loop workers run; the trainer is veRL's own. Importing this package loads neither veRL,
Ray nor torch.
"""
