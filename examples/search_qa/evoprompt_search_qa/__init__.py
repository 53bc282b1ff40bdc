"""Multi-hop question answering with a search tool: two tasks that share one protocol.

``tiny/`` is an invented world with a policy small enough to train on two CPU cores, ``open/`` the
real task for any causal language model. ``data/`` brings the questions, and the distribution
``evoprompt-retrieval`` the search over passages; ``methods/`` are the inference methods of the
paper's Table 1.
"""
