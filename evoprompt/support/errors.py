"""Every error evoprompt raises on purpose.

Each message names what was given, what is required and the remedy. Each class also inherits the
built-in it refines, so that callers may catch either.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator


class EvopromptError(Exception):
    """Base class of all errors raised on purpose by evoprompt."""


class InputError(EvopromptError, ValueError):
    """A configuration, file, text or number given by the user cannot be used (exit code 2)."""


class UnknownAssignmentError(EvopromptError, LookupError):
    """A trajectory was told for an assignment that this engine never gave."""


class AlreadyToldError(EvopromptError, ValueError):
    """A trajectory was told twice, or so late that its assignment is forgotten."""


class StateError(EvopromptError, ValueError):
    """A saved state cannot be loaded; the object it was to be loaded into is unchanged."""


class AttachError(EvopromptError, TypeError):
    """No adapter can attach to this trainer, or it is attached already."""


class PluginError(EvopromptError, LookupError):
    """A plugin is unknown, broken, blocked or collides with another one."""


class ComponentError(EvopromptError, RuntimeError):
    """A selector, attributor, verifier or population failed; training ends."""


class UnwritableError(EvopromptError, OSError):
    """The disk cannot take what was to be written; what was whole before still is (exit code 1)."""


class NothingEvolvedError(EvopromptError, RuntimeError):
    """Training ended, and nothing evolved although it was to; the policy is kept (exit code 1)."""


class EvopromptWarning(UserWarning):
    """Something went wrong that does not end training; the event log tells it, too."""


def warn(message: str, stacklevel: int = 2) -> None:
    """Warns of ``message``; where there is a log, :meth:`EventLog.notice` does both.

    Args:
        message: what a person should know, and what to do about it.
        stacklevel: as of ``warnings.warn``: 2 for the caller of whoever calls this.
    """
    warnings.warn(message, EvopromptWarning, stacklevel + 1)


def causes(error: BaseException) -> Iterator[BaseException]:
    """``error``, what caused it, what caused that, and so on; each once, also in a circle."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        yield cause
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__


class LmError(EvopromptError, RuntimeError):
    """The language model gave no answer that can be used."""


class DeadlineError(LmError, TimeoutError):
    """No answer came within the deadline."""


class BudgetError(LmError):
    """A call was not made because it could have gone over the budget."""


class ReplayError(LmError):
    """A recording holds no answer to this request."""
