"""The search agent under veRL's V1 trainer.

Read ``trainee.py`` first; ``tiny.py`` and ``open.py`` say what each task brings. Everything that
plays, masks and scores an episode is in ``agent_loop.py``, which veRL's agent loop workers run; the
trainer is veRL's own.
"""
