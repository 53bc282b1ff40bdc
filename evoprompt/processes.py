"""Whether this process is one of several that train together, as a launcher starts them."""

from __future__ import annotations

import os


def is_spread() -> bool:
    """Whether a launcher has started several processes for this run."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_follower() -> bool:
    """Whether this is one of them, but not the first."""
    return is_spread() and int(os.environ.get("RANK", "0")) > 0
