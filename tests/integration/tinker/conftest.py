"""Applies to every test that runs the real tinker-cookbook."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="class")
def same_logging() -> Iterator[None]:
    """The cookbook puts handlers onto the root logger and leaves them there."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for handler in set(root.handlers) - set(handlers):
        handler.close()
    root.handlers[:], root.level = handlers, level
