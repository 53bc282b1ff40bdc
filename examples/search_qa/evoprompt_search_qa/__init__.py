"""Multi-hop question answering with a search tool: two tasks that share one protocol.

``tiny/`` is an invented world with a policy small enough to train on two CPU cores, ``open/`` the
real task for any causal language model; ``verl/`` trains both under veRL. ``data/``
brings the questions, and the distribution ``evoprompt-retrieval`` the search over passages;
``methods/`` play a question by every inference method of the paper with one of ``policies/``,
``training/`` trains without reinforcement learning, and ``harness/`` evaluates them all and makes
the table.
"""
