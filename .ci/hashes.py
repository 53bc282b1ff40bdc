"""Write the hashes of a file of constraints, of what pip may take for it on Linux.

python .ci/hashes.py CONSTRAINTS LOCK, a pylock.toml of the same versions with every file of theirs.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_WHEEL = re.compile(
    r"-(?:(?:py2\.)?py3\d*-none|cp31[123]-(?:none|abi3|cp31[123])|cp3\d*-abi3(?:\.abi3)?)"
    r"-(?:any|manylinux[\w.]*_(?:x86_64|aarch64))\.whl$"
)
"""End of the name of a wheel for Python 3.11 to 3.13 on Linux."""
SOURCE = " # source"
"""Mark of a line that has no wheel."""


def lines(constraints: str, packages: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the constraints with their hashes; those without a wheel for Linux are left out."""
    by_version = {(package["name"], package["version"]): package for package in packages}
    for line in constraints.splitlines():
        if line.startswith("#"):
            continue
        name, version = re.split("==| ;", line)[:2]
        package = by_version[re.sub("[-_.]+", "-", name).lower(), version]
        wheels = [file for file in package.get("wheels", ()) if _WHEEL.search(file["url"])]
        is_source = not package.get("wheels")
        files = [package["sdist"]] if is_source else wheels
        if files:
            hashes = [f"--hash=sha256:{file['hashes']['sha256']}" for file in files]
            yield " ".join([line, *hashes]) + SOURCE * is_source


if __name__ == "__main__":
    constraints, lock = map(Path, sys.argv[1:])
    packages = tomllib.loads(lock.read_text(encoding="utf-8"))["packages"]
    print(*lines(constraints.read_text(encoding="utf-8"), packages), sep="\n")
