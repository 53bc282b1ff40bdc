"""Task in miniature: an invented world, a policy of 210,000 weights, minutes on two cores.

Read ``task.py`` first, then ``world.py`` for the questions, ``agent.py`` for the episodes, and
``trl.py`` for the training.
"""
