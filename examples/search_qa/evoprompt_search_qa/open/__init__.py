"""Real task: open questions, real passages behind a search server, any causal language model.

Read ``task.py`` first; any host trains it.
"""
