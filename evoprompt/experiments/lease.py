"""One process at a time for a run, and for each of its trials, also on a shared file system.

A file names who is at work and is touched every few seconds. Another process waits until it is
gone or has not been touched for a while: its machine was lost. A file that looks abandoned by this
machine's clock, which may be wrong, is watched for some heartbeats first. Should a process that was
only cut off come back after that, it finds out by itself and ends.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import LeaseCompromise, OwnerRecord, SoftFileLease, Timeout

from evoprompt.errors import InputError

LEASE = 120.0
"""Seconds without a sign of life after which a process counts as gone."""
HEARTBEAT = 10.0
"""Seconds between two signs of life."""
_A_MOMENT = (
    1.0  # in which the file of a process that was killed on this machine is found and removed
)
_LOOKS_A_HEARTBEAT = 20
_LOOKS = 50  # at a file that looks abandoned: two heartbeats and a half


def end_at_once(file: Path) -> None:
    """Ends this process without another write: somebody else does its work now."""
    print(
        f"{file} is no longer this process's: another one has taken over, or the file was "
        "deleted; ending without saving",
        file=sys.stderr,
        flush=True,
    )
    os._exit(1)


@contextmanager
def only_one(
    file: Path,
    what: str,
    wait: float = 0.0,
    on_loss: Callable[[Path], None] = end_at_once,
) -> Iterator[None]:
    """Holds ``file`` while inside, so that no other process works at the same thing.

    Args:
        file: lies beside what is worked at; deleted at the end.
        what: is worked at, for the message.
        wait: seconds to wait for another process to end, or to count as gone.
        on_loss: called, in a thread of its own, when somebody else has taken over.

    Raises:
        InputError: another process is at work, or nothing can be written there.
    """

    def lost(compromise: LeaseCompromise) -> None:
        on_loss(file)

    lease = SoftFileLease(
        file,
        lease_duration=LEASE,
        heartbeat_interval=HEARTBEAT,
        on_compromise=lost,
        timeout=max(wait, _A_MOMENT),
        poll_interval=0.1,
        thread_local=False,
    )
    try:
        _require_abandoned(file, lease, what, wait)
        while not _is_acquired(lease):
            # A time-out says only that time went by: by now the file may be gone.
            owner = lease.owner
            if owner is not None or file.exists():
                raise InputError(_held(file, owner, what))
    except OSError as error:
        raise InputError(
            f"{file.parent} cannot be written to: {error.strerror}; required: a directory with "
            "room and the right to write; choose another --output"
        ) from error
    try:
        yield
    finally:
        lease.release()


def _is_acquired(lease: SoftFileLease) -> bool:
    """Whether ``lease`` is held now, after its time-out at the latest."""
    try:
        lease.acquire()
    except Timeout:
        return False
    return True


def _held(file: Path, owner: OwnerRecord | None, what: str) -> str:
    """Who is at work, and what to do."""
    ahead = (_touched(file) or 0.0) - time.time()
    if ahead > HEARTBEAT:
        gone = (
            f"its last sign of life is {ahead:.0f} s ahead of this machine's clock: set the "
            f"clocks right, and delete {file} if that process is gone"
        )
    else:
        gone = f"if that machine is gone, try again in {LEASE:.0f} s"
    return (
        f"{what} is being run by {_named(owner)}; required: one process at a time; wait for it or "
        f"stop it; {gone}"
    )


def _named(owner: OwnerRecord | None) -> str:
    return f"process {owner.pid} on {owner.hostname}" if owner else "another process"


def _require_abandoned(file: Path, lease: SoftFileLease, what: str, wait: float) -> None:
    """Returns if nobody is seen to touch ``file`` although it is old by this machine's clock.

    Raises:
        InputError: it is touched all the same, and was after ``wait`` seconds.
    """
    end = time.monotonic() + wait
    while (touched := _touched(file)) is not None and (age := time.time() - touched) >= LEASE:
        if not _is_touched_after(file, touched):
            return
        if time.monotonic() >= end:
            raise InputError(
                f"{what} is being run by {_named(lease.owner)}, whose signs of life in {file} are "
                f"{age:.0f} s old by this machine's clock; required: the same time on all "
                "machines, and one process at a time; set the clock, and wait for that process or "
                "stop it"
            )


def _is_touched_after(file: Path, touched: float) -> bool:
    """Whether ``file`` is touched again within some heartbeats.

    It is looked at so many times, not for so long: who was stopped meanwhile, as a laptop that
    sleeps, has seen nothing.
    """
    for _ in range(_LOOKS):
        time.sleep(HEARTBEAT / _LOOKS_A_HEARTBEAT)
        now = _touched(file)
        if now != touched:
            return now is not None
    return False


def _touched(file: Path) -> float | None:
    """When ``file`` was touched, by the clock that its file system goes by; None without a file."""
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return None
