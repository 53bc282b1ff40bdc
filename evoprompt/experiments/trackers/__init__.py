"""The table of candidates in experiment trackers; numbers go there by the trainer's own logging."""

from evoprompt.experiments.trackers.table import CandidateTables, Row, Tracker, rows_of

__all__ = ["CandidateTables", "Row", "Tracker", "rows_of"]
