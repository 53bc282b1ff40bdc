"""Which packages work together; asked before anything of veRL's is imported, and by the doctor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

from packaging.version import Version

from evoprompt.errors import InputError, warn

MINIMUM = "0.9.0"
"""The oldest veRL whose default trainer this adapter knows."""

TESTED = "0.9.1"
"""The newest veRL that this adapter was tested with; a newer one is tried, with a warning."""

NEWEST_TRL = "1.11"
"""The newest TRL that a tested veRL can be imported beside."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the installed versions.

    Attributes:
        fatal: whether a run is refused for it; otherwise it is warned of.
        text: what was found.
        remedy: what to do about it.
    """

    fatal: bool
    text: str
    remedy: str


def findings(verl: str | None, trl: str | None) -> Iterator[Finding]:
    """What there is to say of these versions; nothing if all is well or there is no veRL.

    Args:
        verl: version of veRL, None if it is not installed.
        trl: version of TRL, None if it is not installed.
    """
    if verl is None:
        return
    newer = Version(verl) > Version(TESTED)
    if Version(verl) < Version(MINIMUM):
        yield Finding(
            True,
            f"veRL {verl} is too old; required: verl>={MINIMUM}",
            f'pip install --upgrade "verl>={MINIMUM}"',
        )
    if newer:
        yield Finding(
            False,
            f"veRL {verl} is newer than {TESTED}, the newest that evoprompt was tested with",
            f'pip install "verl=={TESTED}" if something breaks, and report it',
        )
    if trl is not None and Version(trl).release[:2] > Version(NEWEST_TRL).release:
        yield Finding(
            not newer,
            f"TRL {trl} is installed beside veRL {verl}, whose workers import a class that TRL "
            f"dropped after {NEWEST_TRL}; required: trl<={NEWEST_TRL}, or no TRL",
            f'pip install "trl<={NEWEST_TRL}.0" or pip uninstall trl',
        )


def check_versions() -> None:
    """Checks that the installed packages work together; warns of what was not tested.

    Raises:
        InputError: veRL is missing or too old, or TRL too new for it.
    """
    verl = installed("verl")
    if verl is None:
        raise InputError('veRL is not installed; required: pip install "evoprompt[verl]"')
    for finding in findings(verl, installed("trl")):
        if finding.fatal:
            raise InputError(f"{finding.text}; {finding.remedy}")
        warn(f"{finding.text}; {finding.remedy}")


def installed(distribution: str) -> str | None:
    """The version of ``distribution`` that is installed, None if none is."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
