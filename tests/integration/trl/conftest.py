"""Applies to every test that runs the real TRL."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True, scope="class")
def one_thread() -> None:
    """The models are tiny: more threads only get in each other's way."""
    torch.set_num_threads(1)
