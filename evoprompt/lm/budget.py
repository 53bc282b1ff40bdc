"""What was spent on language models, and what may still be: reserved before, settled after."""

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

_MOST_TOKENS = 10_000_000
"""Of a prompt or an answer that a server is believed: no model has a longer context."""

TOKENS_AROUND = 256
"""Tokens of a request, at most, that are in none of its texts: of chat templates and roles."""

SPENDING_FILE = "lm-spending.jsonl"
"""Journal of the tracker in the directory of a run, which all its trials share."""


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

    def __str__(self) -> str:
        calls = f"{self.calls:,} call{'' if self.calls == 1 else 's'}"
        if self.calls and not self.tokens:
            return f"{calls}, whose tokens nobody counts"
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


class _Entry(BaseModel, extra="forbid", allow_inf_nan=False):
    """A line of the journal: a call is reserved, and then settled."""

    call: str
    settled: bool = False
    model: str = ""
    charge: Charge


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
        self._file = None if path is None else LineFile(path)
        self._mutex = threading.Lock()
        self._earlier = Charge()
        self._settled: dict[str, Charge] = {}
        self._reserved: dict[str, Charge] = {}

    @classmethod
    def seen(cls, path: Path) -> Self:
        """A tracker in memory with what the journal at ``path`` holds, which is not touched.

        Raises:
            StateError: a line of it is no entry.
        """
        tracker = cls()
        tracker._take(LineFile(path).news(), path)
        return tracker

    @property
    def spent(self) -> Charge:
        """Everything settled, and everything reserved as if it had cost the most.

        Raises:
            StateError: a line of the journal is no entry.
        """
        with self._locked():
            return self._total()

    @property
    def settled(self) -> Mapping[str, Charge]:
        """What calls have cost, by model; open reservations are not in it."""
        with self._locked():
            return dict(self._settled)

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
            self._note(_Entry(call=call, model=model, charge=most))
            return call

    def settle(self, call: str, actual: Charge, model: str = "") -> None:
        """Replaces the reservation ``call`` by ``actual``, what the call to ``model`` cost."""
        with self._locked():
            self._note(_Entry(call=call, settled=True, model=model, charge=actual))

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
            if self._path is None or self._file is None:
                yield
                return
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self._path.with_name(f"{self._path.name}.lock")):
                self._take(self._file.news(), self._path)
                yield

    def _note(self, entry: _Entry) -> None:
        """Write an entry to the journal, and only then count it.

        Raises:
            ValidationError: the entry cannot be read again; nothing is written or counted.
        """
        line = entry.model_dump_json(exclude_defaults=True).encode()
        entry = _Entry.model_validate_json(line)
        if self._file is not None:
            self._file.append(line + b"\n")
        self._count(entry)

    def _take(self, lines: Sequence[bytes], path: Path) -> None:
        for line in lines:
            try:
                entry = _Entry.model_validate_json(line)
            except ValidationError as error:
                raise StateError(
                    f"{path} holds a line that is no entry ({reprlib.repr(line)}); required: the "
                    "journal as it was written; fix or delete the line"
                ) from error
            self._count(entry)

    def _count(self, entry: _Entry) -> None:
        if not entry.settled:
            self._reserved[entry.call] = entry.charge
            return
        self._reserved.pop(entry.call, None)
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


def require_prices(budget: BudgetSettings, prices: Prices | None, model: str) -> None:
    """Makes sure that it is known what ``model`` costs, where USD are limited.

    Raises:
        InputError: they are.
    """
    if budget.usd is not None and prices is None:
        raise InputError(
            f"usd is limited and nobody knows what {model} costs; required: prices in USD per "
            "million tokens, such as {input: 0.15, output: 0.6}; the extra lm knows those of usual "
            'models: pip install "evoprompt[lm]"'
        )


@dataclass(frozen=True, slots=True)
class Spending:
    """What requests may cost.

    Attributes:
        tracker: counts it; may be shared, and keep a journal.
        budget: hard limits, checked before every request as if it cost the most it can.
        prices: of the model; None counts requests and tokens alone.
    """

    tracker: SpendTracker = field(default_factory=SpendTracker)
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    prices: Prices | None = None

    def charge(self, inputs: int = 0, outputs: int = 0) -> Charge:
        """What one request of so many tokens costs."""
        usd = 0.0 if self.prices is None else self.prices.usd(inputs, outputs)
        return Charge(1, inputs, outputs, usd, self.prices is not None)

    @contextmanager
    def paid(self, model: str, request: object, longest: int) -> Iterator[Attempt]:
        """Pays for one attempt: reserves the most it can cost before, and settles what it did.

        An attempt that the server refused (an error with a status of 400 and up) costs no tokens.
        One that ended otherwise without a usage that can be read (stopped at the deadline,
        dropped, garbage) is counted in full, because it may have been billed.

        Args:
            model: whom it goes to.
            request: what is sent; its ``repr`` holds all of its texts.
            longest: most tokens of the answer.

        Raises:
            BudgetError: the budget does not leave enough for it.
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
    """An attempt that has been paid for.

    Attributes:
        spending: pays.
        charge: what it costs, as far as is known; the most it can until an answer is there.
    """

    spending: Spending
    charge: Charge

    def used(self, inputs: object, outputs: object) -> None:
        """Counts the tokens that a server says were used, unless these are no numbers of tokens."""
        told = [one for one in (inputs, outputs) if isinstance(one, int)]
        if len(told) == 2 and min(told) >= 0 and max(told) <= _MOST_TOKENS:
            self.charge = self.spending.charge(*told)


def status_of(error: BaseException) -> int | None:
    """The HTTP status in an error of DSPy, the openai package or httpx; None without one."""
    answer = getattr(error, "response", error)
    status = getattr(answer, "status_code", None) or getattr(answer, "status", None)
    return status if isinstance(status, int) else None
