"""The task in miniature: an invented world, a policy of 210,000 weights, minutes on two cores.

Read ``task.py`` first, then ``world.py`` for what is asked, ``agent.py`` for how an episode is
played, and ``trl.py`` for how it is trained.
"""
