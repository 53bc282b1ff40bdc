"""Errors that evoprompt raises on purpose.

Each message names the given value, the requirement and the remedy. Each class also inherits from a
built-in error, so that callers may catch either.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from evoprompt.support.credentials import masked


class EvopromptError(Exception):
    """Base class of all errors raised on purpose by evoprompt."""


class InputError(EvopromptError, ValueError):
    """A configuration, file, text or number given by the user cannot be used (exit code 2)."""


class UnknownAssignmentError(EvopromptError, LookupError):
    """A recorded trajectory belongs to an assignment that this engine never issued."""


class AlreadyToldError(EvopromptError, ValueError):
    """A trajectory was recorded twice, or so late that its assignment is forgotten."""


class StateError(EvopromptError, ValueError):
    """A saved state cannot be loaded; the object that should load it is unchanged."""


class AttachError(EvopromptError, TypeError):
    """No adapter can attach to this trainer, or it is attached already."""


class PluginError(EvopromptError, LookupError):
    """A plugin is unknown, broken, blocked or collides with another one."""


class ComponentError(EvopromptError, RuntimeError):
    """A selector, attributor, verifier or population failed; training ends."""


class UnwritableError(EvopromptError, OSError):
    """The disk cannot take a file; the complete earlier version remains (exit code 1)."""


class NothingEvolvedError(EvopromptError, RuntimeError):
    """Training evolved nothing although evolution was on; the policy is kept (exit code 1)."""


class EvopromptWarning(UserWarning):
    """A problem that does not end training; the event log records it, too."""


def warn(message: str, stacklevel: int = 2) -> None:
    """Warn with ``message``, its credentials masked.

    Where there is a log, call :meth:`EventLog.notice`, which writes the message there, too.

    Args:
        message: the problem, and what the user can do about it.
        stacklevel: as of ``warnings.warn``: 2 for the caller of the function that calls this one.
    """
    warnings.warn(masked(message), EvopromptWarning, stacklevel + 1)


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield ``error``, its cause, the cause of that, and so on, each error once.

    A circle of causes ends, too.
    """
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        yield cause
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__


class LmError(EvopromptError, RuntimeError):
    """The language model gave no usable answer."""


class DeadlineError(LmError, TimeoutError):
    """No answer came within the deadline."""


class BudgetError(LmError):
    """A call was not made because it could have gone over the budget."""


class ReplayError(LmError):
    """A recording holds no answer to this request."""
