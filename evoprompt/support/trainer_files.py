"""Check of the files in a checkpoint that belong to its trainer, before a library reads them."""

from __future__ import annotations

import json
import zipfile
from fnmatch import fnmatch
from pathlib import Path

from evoprompt.support.errors import StateError
from evoprompt.support.storage import BEGUN_FILE, RECIPE_FILE, STATE_FILE

_TORCH_FILES = ("*.pt", "*.pth", "pytorch_model*.bin", "adapter_model.bin", "training_args.bin")


def require_readable(folder: Path, remedy: str) -> None:
    """Require that the files of a trainer in ``folder`` have the form of their kind.

    JSON is parsed; of weights and of files of torch only the table of contents is read, so that a
    file that was cut short is found, and changed numbers are not.

    Raises:
        StateError: a file cannot be read; the message names it.
    """
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        if file.name in (STATE_FILE, BEGUN_FILE, RECIPE_FILE):
            continue
        try:
            _read(file)
        except (OSError, ValueError, RecursionError) as error:
            raise StateError(
                f"{file}, a file of the trainer, cannot be read ({error}); required: the file as "
                f"the trainer wrote it; {remedy}"
            ) from error


def _read(file: Path) -> None:
    """Read the form of ``file``.

    Raises:
        ValueError: the file is not of the kind that its name says.
    """
    if file.suffix == ".json":
        json.loads(file.read_bytes())
    elif file.suffix == ".safetensors":
        _read_safetensors(file)
    elif any(fnmatch(file.name, pattern) for pattern in _TORCH_FILES):
        with file.open("rb") as stream:
            is_pickle = stream.read(1) == b"\x80"  # of old versions of torch
        if not is_pickle and not zipfile.is_zipfile(file):
            raise ValueError("it is cut short, or no file of torch")


def _read_safetensors(file: Path) -> None:
    size = file.stat().st_size
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if not 2 <= length <= size - 8:
            raise ValueError("it is cut short, or no file of safetensors")
        table = json.loads(stream.read(length))
    ends = [tensor["data_offsets"][1] for name, tensor in table.items() if name != "__metadata__"]
    if 8 + length + max(ends, default=0) != size:
        raise ValueError(f"it has {size:,} bytes, and its table of contents names another number")
