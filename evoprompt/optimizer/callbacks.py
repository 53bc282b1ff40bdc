"""Observers of an optimization, which may end it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from evoprompt.log.events import Event
from evoprompt.support.errors import InputError, warn
from evoprompt.support.text import format_error


class OptimizeCallback:
    """Observer of an optimization, which may end it: ``optimize(..., callbacks=[callback])``.

    Override :meth:`on_event`; the events are those of :mod:`evoprompt.log.events`::

        class Enough(OptimizeCallback):
            def on_event(self, event):
                if isinstance(event, Evaluated) and event.metrics["reward"] > 0.9:
                    self.stop()

    A callback that raises is reported once, and not called again: the optimization goes on.
    """

    def __init__(self) -> None:
        self._stop_event = threading.Event()

    def on_event(self, event: Event) -> None:
        """Observe an event, in the thread of the optimization; does nothing by default."""
        return

    def stop(self) -> None:
        """End the optimization with the best result so far; any thread may call this.

        Calls under way get two seconds to end. What was measured is kept: with a directory the
        optimization can be resumed.
        """
        self._stop_event.set()

    @property
    def is_stopped(self) -> bool:
        """Return whether :meth:`stop` was called."""
        return self._stop_event.is_set()


def require_callbacks(callbacks: Sequence[OptimizeCallback]) -> None:
    """Require a list of callbacks that were initialized.

    Raises:
        InputError: it is something else.
    """
    for callback in callbacks if isinstance(callbacks, list | tuple) else (callbacks,):
        if not isinstance(callback, OptimizeCallback) or not hasattr(callback, "_stop_event"):
            raise InputError(
                f"callbacks holds {callback!r:.100}; required: a list of objects of a class that "
                "inherits evoprompt.OptimizeCallback; call super().__init__() in its __init__"
            )


def listener_of(callback: OptimizeCallback) -> Callable[[Event], None]:
    """Return a listener that calls ``callback`` until it raises."""
    is_broken = False

    def listen(event: Event) -> None:
        nonlocal is_broken
        if is_broken:
            return
        try:
            callback.on_event(event)
        except Exception as error:  # the user's code, which must not cost what was measured
            is_broken = True
            warn(
                f"the callback {type(callback).__name__} raised {format_error(error)}; it is not "
                "called again, and the optimization goes on; required: an on_event that returns"
            )

    return listen
