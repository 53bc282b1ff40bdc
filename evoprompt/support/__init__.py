"""Errors, texts, storage and statistics without knowledge of the engine."""
