"""Which packages work together; asked before anything of veRL's is imported."""

from __future__ import annotations

import re
from importlib import metadata

from evoprompt.errors import InputError

MINIMUM = "0.9.0"
"""The oldest veRL whose default trainer this adapter knows."""

NEWEST_TRL = "1.11"
"""The newest TRL that veRL can be imported beside."""


def check_versions() -> None:
    """Checks that the installed packages work together.

    Raises:
        InputError: veRL is missing or too old, or TRL too new for it.
    """
    verl, trl = installed("verl"), installed("trl")
    if verl is None:
        raise InputError('veRL is not installed; required: pip install "evoprompt[verl]"')
    if _numbers(verl) < _numbers(MINIMUM):
        raise InputError(
            f"veRL {verl} is too old; required: verl>={MINIMUM}; "
            f'pip install --upgrade "verl>={MINIMUM}"'
        )
    if trl is not None and _numbers(trl)[:2] > _numbers(NEWEST_TRL):
        raise InputError(
            f"TRL {trl} is installed beside veRL {verl}, whose workers import a class that TRL "
            f"dropped after {NEWEST_TRL}; required: trl<={NEWEST_TRL}, or no TRL; "
            f'pip install "trl=={NEWEST_TRL}.0" or pip uninstall trl'
        )


def installed(distribution: str) -> str | None:
    """The version of ``distribution`` that is installed, None if none is."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])
