"""Proposers: who writes new instructions, one idea a file."""
