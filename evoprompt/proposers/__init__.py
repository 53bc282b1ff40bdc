"""Proposers of new instructions, a file for each approach."""
