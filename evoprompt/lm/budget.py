"""The ledger: what was spent on a language model, and what may still be."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from weakref import WeakValueDictionary

from pydantic import JsonValue, TypeAdapter, ValidationError

from evoprompt.errors import StateError
from evoprompt.lm.errors import BudgetError
from evoprompt.lm.settings import BudgetSettings


@dataclass(frozen=True, slots=True)
class Charge:
    """An amount: requests, tokens and USD."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0

    @property
    def tokens(self) -> int:
        """Input and output tokens."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Charge) -> Charge:
        return Charge(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.usd + other.usd,
        )


_CHARGE = TypeAdapter(Charge)
_OPEN: WeakValueDictionary[Path, Ledger] = WeakValueDictionary()
_OPENING = threading.Lock()


class Ledger:
    """Counts what was spent, and lets nobody spend more than a budget.

    Every call first *reserves* the most it can cost and afterwards *settles* what it did cost.
    Reservations count as spent until they are settled, so that no number of concurrent calls
    goes over the budget; one that is never settled (the process was killed, the connection
    dropped) stays spent, because it may have been billed.

    Args:
        path: journal that every reservation and settlement is added to, and from which the
            ledger continues after a kill; None keeps it in memory. Use :meth:`at` to share it.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._settled = Charge()
        self._reserved: dict[int, Charge] = {}
        self._next = 0
        if path is not None and path.exists():
            self._read(path)

    @classmethod
    def at(cls, path: Path | None) -> Ledger:
        """The one ledger of this process for the journal at ``path``; a new one for None."""
        if path is None:
            return cls()
        with _OPENING:
            ledger = _OPEN.get(path.resolve())
            if ledger is None:
                ledger = _OPEN[path.resolve()] = cls(path)
            return ledger

    @property
    def spent(self) -> Charge:
        """Everything settled, and everything reserved as if it had cost the most."""
        with self._lock:
            return self._total()

    def reserve(self, most: Charge, budget: BudgetSettings) -> int:
        """Sets ``most`` aside and returns a number to settle it by.

        Raises:
            BudgetError: it does not fit into what ``budget`` leaves.
        """
        with self._lock:
            total = self._total() + most
            for name, value, limit in (
                ("calls", total.calls, budget.calls),
                ("tokens", total.tokens, budget.tokens),
                ("USD", total.usd, budget.usd),
            ):
                if limit is not None and value > limit:
                    raise BudgetError(
                        f"the call could bring the run to {value:g} {name}; the budget is "
                        f"{limit:g}; raise it or go on with what is there"
                    )
            number = self._next
            self._next += 1
            self._reserved[number] = most
            self._write("reserve", number, most)
            return number

    def settle(self, number: int, actual: Charge) -> None:
        """Replaces a reservation by what the call cost."""
        with self._lock:
            del self._reserved[number]
            self._settled += actual
            self._write("settle", number, actual)

    def _total(self) -> Charge:
        return sum(self._reserved.values(), self._settled)

    def _write(self, kind: str, number: int, charge: Charge) -> None:
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({kind: number, **asdict(charge)}) + "\n")

    def _read(self, path: Path) -> None:
        journal = path.read_text(encoding="utf-8")
        if journal and not journal.endswith("\n"):
            with path.open("a", encoding="utf-8") as file:
                file.write("\n")  # or the next entry would be lost in a line cut by a kill
        for line in journal.splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # cut by a kill: the call it was for was not made yet
            number = entry.pop("reserve", entry.get("settle"))
            if entry.pop("settle", None) is None:
                self._reserved[number] = _CHARGE.validate_python(entry)
            else:
                self._reserved.pop(number, None)
                self._settled += _CHARGE.validate_python(entry)
            self._next = max(self._next, number + 1)

    def state_dict(self) -> dict[str, JsonValue]:
        """What was spent, open reservations included."""
        spent: dict[str, JsonValue] = asdict(self.spent)
        return spent

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``, unless the journal knows of more: money is not rewound."""
        try:
            saved = _CHARGE.validate_python(state)
        except ValidationError as error:
            raise StateError(f"the state of a ledger cannot be read: {error}") from error
        with self._lock:
            if saved.calls > self._total().calls:
                self._settled, self._reserved = saved, {}
