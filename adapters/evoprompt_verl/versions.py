"""Which packages work together; asked before anything of veRL's is imported, and by the doctor."""

from __future__ import annotations

from importlib import metadata

from packaging.version import Version

from evoprompt.hosting.attachment import require_version
from evoprompt.support.errors import AttachError, InputError, warn

MINIMUM = "0.9.0"
"""The oldest veRL whose default trainer this adapter knows."""

TESTED = "0.9.1"
"""The newest veRL that this adapter was tested with; a newer one is tried, with a warning."""

NEWEST_TRL = "1.11"
"""The newest TRL that a tested veRL can be imported beside."""

REMEDY = f'pip install "trl<={NEWEST_TRL}.0" or pip uninstall trl'
"""What to do about a newer one."""


def conflict(verl: str, trl: str | None) -> str:
    """Why these versions do not go together; empty if they do, or there is no TRL."""
    if trl is None or Version(trl).release[:2] <= Version(NEWEST_TRL).release:
        return ""
    return (
        f"TRL {trl} is installed beside veRL {verl}, whose workers import a class that TRL "
        f"dropped after {NEWEST_TRL}; required: trl<={NEWEST_TRL}, or no TRL"
    )


def check_versions() -> None:
    """Check that the installed packages work together; warn of untested versions.

    Raises:
        InputError: veRL is missing or too old, or TRL too new for it.
    """
    verl = installed("verl")
    if verl is None:
        raise InputError('veRL is not installed; required: pip install -e ".[verl]"')
    try:
        require_version("verl", verl, MINIMUM, TESTED)
    except AttachError as error:
        raise InputError(str(error)) from error
    if problem := conflict(verl, installed("trl")):
        if Version(verl) <= Version(TESTED):
            raise InputError(f"{problem}; {REMEDY}")
        warn(f"{problem}; {REMEDY}")


def installed(distribution: str) -> str | None:
    """Return the installed version of ``distribution``, None if it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
