"""The tracker: what was spent on a language model, and what may still be."""

from __future__ import annotations

import reprlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Self
from uuid import uuid4

from filelock import FileLock
from pydantic import (
    AllowInfNan,
    BaseModel,
    JsonValue,
    NonNegativeFloat,
    NonNegativeInt,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from evoprompt.errors import StateError
from evoprompt.lm.errors import BudgetError
from evoprompt.lm.settings import BudgetSettings, Prices


@dataclass(frozen=True, slots=True)
class Charge:
    """An amount: requests, tokens and USD.

    Attributes:
        calls: requests.
        input_tokens: of prompts.
        output_tokens: of answers.
        usd: what they cost, as far as prices are known.
        priced: whether they are, of all requests.
    """

    calls: NonNegativeInt = 0
    input_tokens: NonNegativeInt = 0
    output_tokens: NonNegativeInt = 0
    usd: Annotated[NonNegativeFloat, AllowInfNan(False)] = 0.0
    priced: bool = field(default=True, compare=False)

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
            self.priced and other.priced,
        )


def charge_of(prices: Prices | None, inputs: int = 0, outputs: int = 0) -> Charge:
    """What one request of so many tokens costs, at ``prices``; None where nobody knows them."""
    usd = 0.0 if prices is None else prices.usd(inputs, outputs)
    return Charge(1, inputs, outputs, usd, prices is not None)


_CHARGE = TypeAdapter(Charge)

SPENDING_FILE = "lm-spending.jsonl"
"""Journal of the tracker in the directory of a run, which all its trials share."""


class _Entry(BaseModel, extra="forbid", allow_inf_nan=False):
    """A line of the journal: exactly one of ``reserve`` and ``settle`` names the call."""

    reserve: str | int | None = None
    settle: str | int | None = None
    model: str = ""
    calls: NonNegativeInt
    input_tokens: NonNegativeInt
    output_tokens: NonNegativeInt
    usd: NonNegativeFloat
    priced: bool = True

    @model_validator(mode="after")
    def _names_one_call(self) -> Self:
        if (self.reserve is None) == (self.settle is None):
            raise ValueError("required: one of reserve and settle")
        return self

    @property
    def charge(self) -> Charge:
        return Charge(self.calls, self.input_tokens, self.output_tokens, self.usd, self.priced)


class SpendTracker:
    """Counts what was spent, and lets nobody spend more than a budget.

    Every call first *reserves* the most it can cost and afterwards *settles* what it did cost.
    Reservations count as spent until they are settled, so that no number of concurrent calls
    goes over the budget; one that is never settled (the process was killed, the connection
    dropped) stays spent, because it may have been billed.

    Args:
        path: journal that every reservation and settlement is added to, under a lock beside it.
            Trackers of one journal, also in other processes, count together, and continue after a
            kill. None keeps the tracker in memory.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._mutex = threading.Lock()
        self._earlier = Charge()
        self._settled: dict[str, Charge] = {}
        self._reserved: dict[str | int, Charge] = {}
        self._read_bytes = 0

    @classmethod
    def seen(cls, path: Path) -> Self:
        """A tracker in memory with what the journal at ``path`` holds, which is not touched.

        Raises:
            StateError: a line of it is no entry.
        """
        tracker = cls()
        tracker._take(path.read_bytes(), path)
        return tracker

    @property
    def spent(self) -> Charge:
        """Everything settled, and everything reserved as if it had cost the most."""
        with self._locked():
            return self._total()

    def require_readable(self) -> None:
        """Returns if the journal can be read.

        Raises:
            StateError: a line of it is no entry.
        """
        with self._locked():
            pass

    def has_answer_of(self, model: str) -> bool:
        """Whether ``model`` has answered a call."""
        with self._locked():
            return self._settled.get(model, Charge()).output_tokens > 0

    def reserve(self, most: Charge, budget: BudgetSettings, model: str = "") -> str:
        """Sets ``most`` aside for a call to ``model`` and returns a name to settle it by.

        Raises:
            BudgetError: it does not fit into what ``budget`` leaves.
        """
        with self._locked():
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
            call = uuid4().hex
            self._note(_Entry(reserve=call, model=model, **asdict(most)))
            return call

    def settle(self, call: str, actual: Charge, model: str = "") -> None:
        """Replaces a reservation by what the call to ``model`` cost."""
        with self._locked():
            self._note(_Entry(settle=call, model=model, **asdict(actual)))

    @property
    def settled(self) -> Mapping[str, Charge]:
        """What calls have cost, by model; open reservations are not in it."""
        with self._locked():
            return dict(self._settled)

    def join(self, settled: Mapping[str, Charge]) -> None:
        """Adds what another tracker, which is used no longer, has ``settled``."""
        for model, charge in settled.items():
            self.settle(uuid4().hex, charge, model)

    def _total(self) -> Charge:
        return sum((*self._settled.values(), *self._reserved.values()), self._earlier)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keeps other threads and processes out, and knows what they have written until now."""
        with self._mutex:
            if self._path is None:
                yield
                return
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self._path.with_name(f"{self._path.name}.lock")):
                self._catch_up(self._path)
                yield

    def _note(self, entry: _Entry) -> None:
        """Writes an entry to the journal, and only then counts it."""
        if self._path is not None:
            line = entry.model_dump_json(exclude_none=True, exclude_defaults=True).encode() + b"\n"
            with self._path.open("ab") as file:
                file.write(line)
            self._read_bytes += len(line)
        self._count(entry)

    def _catch_up(self, path: Path) -> None:
        if not path.exists():
            return
        with path.open("r+b") as file:
            file.seek(self._read_bytes)
            written = file.read()
            if written and not written.endswith(b"\n"):
                file.write(b"\n")  # or the next entry would be lost in a line cut by a kill
            self._read_bytes = file.tell()
        self._take(written, path)

    def _take(self, written: bytes, path: Path) -> None:
        for line in filter(None, written.split(b"\n")):
            try:
                entry = _Entry.model_validate_json(line)
            except ValidationError as error:
                if _is_cut(line):
                    continue  # cut by a kill: the call it was for was not made yet
                raise StateError(
                    f"{path} holds a line that is no entry ({reprlib.repr(line)}); required: the "
                    "journal as it was written; fix or delete the line"
                ) from error
            self._count(entry)

    def _count(self, entry: _Entry) -> None:
        if entry.reserve is not None:
            self._reserved[entry.reserve] = entry.charge
        elif entry.settle is not None:
            self._reserved.pop(entry.settle, None)
            self._settled[entry.model] = self._settled.get(entry.model, Charge()) + entry.charge

    def state_dict(self) -> dict[str, JsonValue]:
        """What was spent, open reservations included."""
        spent: dict[str, JsonValue] = asdict(self.spent)
        return spent

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Adds what ``state`` knows of, unless this tracker knows of as much: money is not rewound.

        Raises:
            StateError: it is not the state of a tracker.
        """
        try:
            saved = _CHARGE.validate_python(state)
        except ValidationError as error:
            raise StateError(f"the state of a tracker cannot be read: {error}") from error
        with self._locked():
            if saved.calls > self._total().calls:
                self._earlier = saved


def _is_cut(line: bytes) -> bool:
    """Whether ``line`` is the beginning of an entry, and not all of it."""
    begins = any(line[: len(key)] == key[: len(line)] for key in (b'{"reserve"', b'{"settle"'))
    return begins and not line.endswith(b"}")
