"""What a proposer does besides proposing may fail, too: told once, and training goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from pydantic import JsonValue, TypeAdapter

from evoprompt.engine.seats import name_error

Found = TypeVar("Found")
_NAMES = TypeAdapter(list[str])


class SideCalls:
    """Calls what is optional about a proposer.

    Args:
        announce: tells a person of the first failure of each method.
    """

    def __init__(self, announce: Callable[[str], None] = lambda message: None) -> None:
        self._announce = announce
        self._failed: list[str] = []

    def ask(self, method: str, call: Callable[[], Found], otherwise: Found) -> Found:
        """What ``call`` returns; ``otherwise`` if it raises."""
        try:
            return call()
        except Exception as error:
            if method not in self._failed:
                self._failed.append(method)
                self._announce(
                    f"{method} of the proposer failed, training goes on without it: "
                    f"{name_error(error)}"
                )
            return otherwise

    def state_dict(self) -> dict[str, JsonValue]:
        """The methods whose failure was told."""
        return {"failed": list(self._failed)}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        self._failed = _NAMES.validate_python(state["failed"])
