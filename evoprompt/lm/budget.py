"""Spending on language models, and its budget: reserved before a call, settled after it."""

from __future__ import annotations

import reprlib
import threading
from collections.abc import Iterator, Mapping, Sequence
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
)

from evoprompt.lm.settings import BudgetSettings, Prices
from evoprompt.support.errors import BudgetError, InputError, StateError
from evoprompt.support.storage import LineFile

_MAX_TOKENS = 10_000_000
"""Tokens above which a server's usage is not credible: no model has a longer context."""

TOKENS_AROUND = 256
"""Upper bound of a request's tokens outside of its texts, such as those of chat templates."""

SPENDING_FILE = "lm-spending.jsonl"
"""Name of the journal in the directory of a run, which all its trials share."""


@dataclass(frozen=True, slots=True)
class Charge:
    """Amount of requests, tokens and USD.

    Attributes:
        calls: number of requests.
        input_tokens: tokens of prompts.
        output_tokens: tokens of answers.
        usd: cost of the requests with known prices.
        priced: whether the prices of all requests are known.
    """

    calls: NonNegativeInt = 0
    input_tokens: NonNegativeInt = 0
    output_tokens: NonNegativeInt = 0
    usd: Annotated[NonNegativeFloat, AllowInfNan(False)] = 0.0
    priced: bool = field(default=True, compare=False)

    @property
    def tokens(self) -> int:
        """Return the sum of input and output tokens."""
        return self.input_tokens + self.output_tokens

    def __str__(self) -> str:
        calls = f"{self.calls:,} call{'' if self.calls == 1 else 's'}"
        if self.calls and not self.tokens:
            return f"{calls}, whose tokens are not counted"
        usd = f"{self.usd:.4g} USD" if self.priced else "price unknown"
        return f"{calls}, {self.tokens:,} tokens, {usd}"

    def __add__(self, other: Charge) -> Charge:
        return Charge(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.usd + other.usd,
            self.priced and other.priced,
        )


_CHARGE = TypeAdapter(Charge)


class _JournalEntry(BaseModel, extra="forbid", allow_inf_nan=False):
    """Line of the journal: a call is reserved, and then settled."""

    call: str
    settled: bool = False
    model: str = ""
    charge: Charge


class SpendTracker:
    """Tracker of spending that refuses every call over a budget.

    Every call first *reserves* its greatest possible cost and afterwards *settles* its actual cost.
    Reservations count as spent until they are settled, so that no number of concurrent calls goes
    over the budget. A reservation that is never settled (the process was killed, the connection
    dropped) stays spent, because it may have been billed.

    Args:
        path: journal to which every reservation and settlement is appended, under a lock file.
            Trackers of one journal, also in other processes, count together, and continue after a
            kill. None keeps the tracker in memory.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._file = None if path is None else LineFile(path)
        self._mutex = threading.Lock()
        self._earlier = Charge()
        self._settled: dict[str, Charge] = {}
        self._reserved: dict[str, Charge] = {}

    @classmethod
    def from_journal(cls, path: Path) -> Self:
        """Return a tracker in memory with the entries of the journal at ``path``.

        The journal is not changed.

        Raises:
            StateError: a line of the journal is no entry.
        """
        tracker = cls()
        tracker._read_entries(LineFile(path).news(), path)
        return tracker

    @property
    def spent(self) -> Charge:
        """Return the sum of all settled charges, and of open reservations at their full cost.

        Raises:
            StateError: a line of the journal is no entry.
        """
        with self._locked():
            return self._total()

    @property
    def settled(self) -> Mapping[str, Charge]:
        """Return the actual costs of calls, by model, without open reservations."""
        with self._locked():
            return dict(self._settled)

    def reserve(self, max_charge: Charge, budget: BudgetSettings, model: str = "") -> str:
        """Reserve ``max_charge`` for a call to ``model`` and return a name for its settlement.

        Raises:
            BudgetError: the reservation would exceed ``budget``.
        """
        with self._locked():
            total = self._total() + max_charge
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
            self._write_entry(_JournalEntry(call=call, model=model, charge=max_charge))
            return call

    def settle(self, call: str, actual: Charge, model: str = "") -> None:
        """Replace the reservation ``call`` by ``actual``, the cost of the call to ``model``."""
        with self._locked():
            self._write_entry(_JournalEntry(call=call, settled=True, model=model, charge=actual))

    def join(self, settled: Mapping[str, Charge]) -> None:
        """Add the ``settled`` charges of another tracker, which is no longer used."""
        for model, charge in settled.items():
            self.settle(uuid4().hex, charge, model)

    def _total(self) -> Charge:
        return sum((*self._settled.values(), *self._reserved.values()), self._earlier)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock out other threads and processes, after reading their entries up to now."""
        with self._mutex:
            if self._path is None or self._file is None:
                yield
                return
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self._path.with_name(f"{self._path.name}.lock")):
                self._read_entries(self._file.news(), self._path)
                yield

    def _write_entry(self, entry: _JournalEntry) -> None:
        """Write an entry to the journal, and only then count it.

        Raises:
            ValidationError: the entry cannot be read again; nothing is written or counted.
        """
        line = entry.model_dump_json(exclude_defaults=True).encode()
        entry = _JournalEntry.model_validate_json(line)
        if self._file is not None:
            self._file.append(line + b"\n")
        self._count(entry)

    def _read_entries(self, lines: Sequence[bytes], path: Path) -> None:
        for line in lines:
            try:
                entry = _JournalEntry.model_validate_json(line)
            except ValidationError as error:
                raise StateError(
                    f"{path} holds a line that is no entry ({reprlib.repr(line)}); required: the "
                    "journal as it was written; fix or delete the line"
                ) from error
            self._count(entry)

    def _count(self, entry: _JournalEntry) -> None:
        if not entry.settled:
            self._reserved[entry.call] = entry.charge
            return
        self._reserved.pop(entry.call, None)
        self._settled[entry.model] = self._settled.get(entry.model, Charge()) + entry.charge

    def state_dict(self) -> dict[str, JsonValue]:
        """Return the spent amount, including open reservations."""
        amount: dict[str, JsonValue] = asdict(self.spent)
        return amount

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Add the spending of ``state``, unless this tracker already has as many calls.

        Spent money is never subtracted.

        Raises:
            StateError: ``state`` is not the state of a tracker.
        """
        try:
            saved = _CHARGE.validate_python(state)
        except ValidationError as error:
            raise StateError(f"the state of a tracker cannot be read: {error}") from error
        with self._locked():
            if saved.calls > self._total().calls:
                self._earlier = saved


def require_prices(budget: BudgetSettings, prices: Prices | None, model: str) -> None:
    """Require that the prices of ``model`` are known if USD are limited.

    Raises:
        InputError: USD are limited and the prices are unknown.
    """
    if budget.usd is not None and prices is None:
        raise InputError(
            f"usd is limited and the prices of {model} are unknown; required: prices in USD per "
            "million tokens, such as {input: 0.15, output: 0.6}; the extra lm knows those of usual "
            'models: pip install -e ".[lm]"'
        )


@dataclass(frozen=True, slots=True)
class Spending:
    """Account for requests, with their limits and prices.

    Attributes:
        tracker: tracker of the spending; may be shared, and write a journal.
        budget: hard limits, checked before every request with its greatest possible cost.
        prices: prices of the model; None counts requests and tokens only.
    """

    tracker: SpendTracker = field(default_factory=SpendTracker)
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    prices: Prices | None = None

    def charge(self, inputs: int = 0, outputs: int = 0) -> Charge:
        """Return the cost of one request with so many tokens."""
        usd = 0.0 if self.prices is None else self.prices.usd(inputs, outputs)
        return Charge(1, inputs, outputs, usd, self.prices is not None)

    @contextmanager
    def paid(self, model: str, request: object, longest: int) -> Iterator[Attempt]:
        """Pay for one attempt: reserve its greatest cost in advance, and settle its actual cost.

        An attempt that the server refused (an error with a status of 400 and up) costs no tokens.
        An attempt that ended otherwise without a readable usage (stopped at the deadline, dropped,
        garbage) is counted in full, because it may have been billed.

        Args:
            model: name of the model.
            request: the request; its ``repr`` contains all of its texts.
            longest: maximum number of tokens of the answer.

        Raises:
            BudgetError: the budget does not leave enough for the attempt.
        """
        # A token is at least one byte, so the bytes of a request bound its tokens.
        inputs = len(repr(request).encode("utf-8", "backslashreplace")) + TOKENS_AROUND
        attempt = Attempt(self, self.charge(inputs, longest))
        call = self.tracker.reserve(attempt.charge, self.budget, model)
        try:
            yield attempt
        except Exception as error:
            if (status_of(error) or 0) >= 400:
                attempt.charge = self.charge()
            raise
        finally:
            self.tracker.settle(call, attempt.charge, model)


@dataclass(slots=True)
class Attempt:
    """Attempt that has been paid for.

    Attributes:
        spending: account that pays.
        charge: its cost as far as known; the greatest possible cost before an answer arrives.
    """

    spending: Spending
    charge: Charge

    def used(self, inputs: object, outputs: object) -> None:
        """Charge the tokens that a server reports, unless they are no token counts."""
        counts = [count for count in (inputs, outputs) if isinstance(count, int)]
        if len(counts) == 2 and min(counts) >= 0 and max(counts) <= _MAX_TOKENS:
            self.charge = self.spending.charge(*counts)


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of an error of DSPy, the openai package or httpx, or None."""
    answer = getattr(error, "response", error)
    status = getattr(answer, "status_code", None) or getattr(answer, "status", None)
    return status if isinstance(status, int) else None
