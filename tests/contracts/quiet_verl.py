"""veRL is imported once, quietly: its libraries warn about each other, and that is not ours."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
collect_ignore_glob: list[str] = []
"""For the ``conftest.py`` of a folder whose tests import veRL."""
if sys.version_info >= (3, 13):  # on which veRL does not install; everything else does
    collect_ignore_glob = ["test_*.py"]
else:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import verl.trainer.ppo.v1.trainer_sync  # noqa: F401


@pytest.fixture(autouse=True)
def quiet_hosts() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
