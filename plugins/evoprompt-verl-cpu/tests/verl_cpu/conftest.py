"""veRL is imported once, quietly: its libraries warn about each other, and that is not ours."""

from __future__ import annotations

import sys
import warnings

if sys.version_info >= (3, 13):  # on which veRL does not install; everything else does
    collect_ignore_glob = ["test_*.py"]
else:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import verl.trainer.ppo.v1.trainer_sync  # noqa: F401
