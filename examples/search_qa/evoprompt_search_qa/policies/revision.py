"""Which weights a policy has, so that two evaluations can be told apart."""

from __future__ import annotations

import hashlib
from pathlib import Path

from evoprompt_retrieval.corpus import fingerprint

_PARTS = ("config.json", "tokenizer.json", "*.safetensors", "*.bin")


def weights_revision(folder: Path) -> str:
    """A digest of the weights, configuration and tokenizer in ``folder``; empty without any."""
    paths = sorted(path for part in _PARTS for path in folder.glob(part))
    told = "".join(f"{path.name} {fingerprint(path)}\n" for path in paths)
    return hashlib.blake2b(told.encode(), digest_size=16).hexdigest() if paths else ""
