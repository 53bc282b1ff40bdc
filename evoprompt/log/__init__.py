"""Records of a run: events, the event log, summaries of steps, assignments and evaluations."""
