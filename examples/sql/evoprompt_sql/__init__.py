"""Questions over a SQLite database, answered with queries by the model's own tool calls."""
