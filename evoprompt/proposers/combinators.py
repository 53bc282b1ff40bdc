"""Proposers around other proposers, and the one that never proposes anything."""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pydantic import BaseModel, Field, JsonValue, TypeAdapter, ValidationError

from evoprompt.errors import InputError, StateError
from evoprompt.lm import LmSettings
from evoprompt.plugins import Section, build, plugins
from evoprompt.roles import BuildContext, ProposalRequest, Proposer
from evoprompt.text import format_error_with_place
from evoprompt.types import Estimate, Proposal, VerificationResult

_STATES = TypeAdapter(list[dict[str, JsonValue]])
_COUNT = TypeAdapter(int)
_COUNTS = TypeAdapter(dict[str, float])


class NoProposer(Proposer):
    """Never proposes anything; an engine with it keeps its seeds (a static instruction)."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """An empty list."""
        del request
        return []


class Wrapper(Proposer):
    """Passes on to the proposers inside what is not asked of itself.

    Args:
        inner: the proposers, the first of which counts most; at least one.
    """

    def __init__(self, *inner: Proposer) -> None:
        self.inner = inner

    def check(self, probe: bool = False) -> None:
        """Checks all."""
        for one in self.inner:
            one.check(probe)

    def feedback(self, results: Sequence[VerificationResult]) -> None:
        """Tells all."""
        for one in self.inner:
            one.feedback(results)

    def notices(self) -> Sequence[str]:
        """What any of them has to say."""
        return [text for one in self.inner for text in one.notices()]

    @property
    def failures_caught(self) -> int:
        """Failures that they have caught themselves."""
        return sum(one.failures_caught for one in self.inner)

    def metrics(self) -> Mapping[str, float]:
        """The totals of all."""
        return {name: n for one in reversed(self.inner) for name, n in one.metrics().items()}

    def estimate(self, generations: int, count: int, parents: int) -> Estimate:
        """The cost of the first."""
        return self.inner[0].estimate(generations, count, parents)

    def state_dict(self) -> dict[str, JsonValue]:
        """The states of all."""
        states: list[JsonValue] = [one.state_dict() for one in self.inner]
        return {"inner": states}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``.

        Raises:
            StateError: it is not the state of so many proposers.
        """
        try:
            states = _STATES.validate_python(state.get("inner"))
        except ValidationError as error:
            raise StateError(f"the state of {self.name} cannot be read: {error}") from error
        if len(states) != len(self.inner):
            raise StateError(
                f"the state of {self.name} is of {len(states)} proposers; required: of "
                f"{len(self.inner)}"
            )
        for one, saved in zip(self.inner, states, strict=True):
            one.load_state_dict(saved)


def signed(proposals: Sequence[Proposal], name: str) -> list[Proposal]:
    """``proposals``, the unsigned ones signed with ``name``."""
    return [replace(one, proposer=one.proposer or name) for one in proposals]


class Fallback(Wrapper):
    """Asks ``first``; when that raises, says so and asks ``second``.

    Every generation begins with ``first`` again: an outage may end.

    Args:
        first: the proposer of choice, such as one that asks a language model.
        second: one that cannot fail for the same reason, such as ``SentenceEdit``.
    """

    def __init__(self, first: Proposer, second: Proposer) -> None:
        super().__init__(first, second)
        self.first = first
        self.second = second
        self._notices: list[str] = []
        self._caught = 0

    def check(self, probe: bool = False) -> None:
        """Checks both; a first one that only does not answer is warned of, not refused.

        Raises:
            InputError: the second cannot work, or the first is set up wrongly.
        """
        self.second.check(probe)
        self.first.check()
        try:
            self.first.check(probe)
        except InputError as error:
            warnings.warn(f"{self.second.name} proposes until this is fixed: {error}", stacklevel=2)

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """The proposals of the first, or of the second."""
        try:
            return signed(self.first.propose(request), self.first.name)
        except Exception as error:
            self._caught += 1
            first, second = self.first.name, self.second.name
            why = format_error_with_place(error)
            self._notices.append(f"{first} failed, {second} proposes instead: {why}")
        return signed(self.second.propose(request), self.second.name)

    def notices(self) -> Sequence[str]:
        """Failures of the first since the last time, and what either has to say."""
        own, self._notices = self._notices, []
        return [*own, *super().notices()]

    @property
    def failures_caught(self) -> int:
        """Failures of the first, and those that either has caught itself."""
        return self._caught + super().failures_caught

    def state_dict(self) -> dict[str, JsonValue]:
        """The states of both, and the failures of the first."""
        return {**super().state_dict(), "caught": self._caught}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``.

        Raises:
            StateError: it is not the state of a fallback.
        """
        try:
            caught = _COUNT.validate_python(state.get("caught"))
        except ValidationError as error:
            raise StateError(f"the state of a fallback cannot be read: {error}") from error
        super().load_state_dict(state)
        self._caught = caught


class Mixture(Wrapper):
    """A bandit over proposers that learns whose offspring get admitted.

    It splits every request among proposers by Thompson sampling. Each proposal is a trial of the
    proposer that wrote it and a success if the candidate is admitted; one that never reached
    verification (screening refused it, the proposer failed) is a failure too. For each proposal
    wished for, a success rate is drawn from every proposer's Beta(1 + successes, 1 + failures) and
    the highest draw writes it; when all that were drawn fail, the others stand in. Old trials fade,
    because what helps a policy changes while it learns.

    Args:
        proposers: by name; the name signs their proposals.
        memory: factor in (0, 1] on all trials at every request.

    Raises:
        InputError: there are no proposers, or the memory is out of range.
    """

    name = "mixture"
    slow = True

    class Settings(BaseModel, extra="forbid"):
        """What a configuration may set."""

        proposers: list[Section] = Field(min_length=1, description="the proposers to choose from")
        lm: LmSettings | None = Field(default=None, description="for those that bring none")
        memory: float = Field(default=0.9, gt=0, le=1, description="how much of a trial is kept")

    @classmethod
    def build(cls, settings: Settings, context: BuildContext) -> Mixture:
        """Makes the proposers, and one of them all, which runs in one thread.

        Raises:
            InputError: a proposer is named twice.
        """
        proposers: dict[str, Proposer] = {}
        for given in settings.proposers:
            name = str(given.get("name"))
            if name in proposers:
                raise InputError(
                    f"the mixture has {name!r} twice; required: different proposers; drop one"
                )
            arm = {"background": False, **given}
            takes = plugins().find("proposer", name).component.Settings.model_fields
            if "lm" in takes and settings.lm is not None:
                arm.setdefault("lm", settings.lm.model_dump(mode="json"))
            proposers[name] = build("proposer", arm, context)
        return cls(proposers, settings.memory)

    def __init__(self, proposers: Mapping[str, Proposer], memory: float = 0.9) -> None:
        if not proposers:
            raise InputError("a mixture has no proposers; required: at least one")
        if not 0 < memory <= 1:
            raise InputError(f"memory is {memory}; required: above 0 and at most 1")
        super().__init__(*proposers.values())
        self.proposers = dict(proposers)
        self.memory = memory
        self._successes = dict.fromkeys(self.proposers, 0.0)
        self._failures = dict.fromkeys(self.proposers, 0.0)
        self._open: Counter[str] = Counter()
        self._notices: list[str] = []
        self._caught = 0
        self._lock = threading.Lock()

    @property
    def success_rates(self) -> dict[str, float]:
        """Expected share of admitted proposals of each proposer, in (0, 1)."""
        return {
            name: (1 + self._successes[name]) / (2 + self._successes[name] + self._failures[name])
            for name in self.proposers
        }

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Proposals of the proposers drawn, signed with their names.

        Raises:
            Exception: what the last proposer raised, if all failed.
        """
        with self._lock:
            self._close()
            counts = self._draw(request)
        proposals: list[Proposal] = []
        errors: list[Exception] = []
        for name in [*counts, *self._others(counts)]:
            if name not in counts and proposals:
                break  # the others only stand in when all that were drawn failed
            count = counts.get(name, request.count)
            try:
                written = self.proposers[name].propose(replace(request, count=count))[:count]
            except Exception as error:
                errors.append(error)
                self._notices.append(
                    f"{name} failed in the mixture: {format_error_with_place(error)}"
                )
                written = []
            proposals += [replace(one, proposer=name) for one in written]
            with self._lock:
                self._open[name] += len(written)
                self._failures[name] += count - len(written)
        if errors and not proposals:
            self._caught += len(errors) - 1
            raise errors[-1]
        self._caught += len(errors)
        return proposals

    def _others(self, drawn: Counter[str]) -> list[str]:
        rates = self.success_rates
        return sorted((name for name in rates if name not in drawn), key=lambda name: -rates[name])

    def _draw(self, request: ProposalRequest) -> Counter[str]:
        counts: Counter[str] = Counter()
        for _ in range(request.count):
            draws = {
                name: request.rng.betavariate(1 + self._successes[name], 1 + self._failures[name])
                for name in self.proposers
            }
            counts[max(draws, key=draws.__getitem__)] += 1
        return counts

    def _close(self) -> None:
        """Counts what came to nothing as failures, and lets all trials fade."""
        for name in self.proposers:
            self._failures[name] = self.memory * (self._failures[name] + self._open[name])
            self._successes[name] *= self.memory
        self._open.clear()

    def feedback(self, results: Sequence[VerificationResult]) -> None:
        """Counts admissions and refusals for the proposers that signed the candidates."""
        with self._lock:
            for result in results:
                name = result.candidate.proposer
                if self._open[name] > 0:
                    self._open[name] -= 1
                    (self._successes if result.admitted else self._failures)[name] += 1
        for name, proposer in self.proposers.items():
            if own := [one for one in results if one.candidate.proposer == name]:
                proposer.feedback(own)

    def notices(self) -> Sequence[str]:
        """Failures since the last time, and what the proposers have to say."""
        own, self._notices = self._notices, []
        return [*own, *super().notices()]

    @property
    def failures_caught(self) -> int:
        """Failures that were not passed on, and those that the proposers have caught themselves."""
        return self._caught + super().failures_caught

    def metrics(self) -> Mapping[str, float]:
        """The totals of all proposers, and ``mixture/<name>``: the expected share admitted."""
        rates = self.success_rates
        return {**super().metrics(), **{f"mixture/{name}": rate for name, rate in rates.items()}}

    def estimate(self, generations: int, count: int, parents: int) -> Estimate:
        """The mean price of the proposers, as if all were drawn equally often."""
        estimates = [one.estimate(generations, count, parents) for one in self.inner]
        total = sum(estimates, Estimate(0, 0, 0.0))
        size = len(estimates)
        usd = None if total.usd is None else total.usd / size
        return Estimate(round(total.calls / size), round(total.tokens / size), usd)

    def state_dict(self) -> dict[str, JsonValue]:
        """All trials, the failures caught, and the states of the proposers."""
        return {
            **super().state_dict(),
            "successes": dict(self._successes),
            "failures": dict(self._failures),
            "open": dict(self._open),
            "caught": self._caught,
        }

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``.

        Raises:
            StateError: it is of a mixture of other proposers.
        """
        try:
            successes, failures, unseen = (
                _COUNTS.validate_python(state[key]) for key in ("successes", "failures", "open")
            )
            caught = _COUNT.validate_python(state["caught"])
        except (KeyError, ValidationError) as error:
            raise StateError(f"the state of a mixture cannot be read: {error}") from error
        if set(successes) != set(self.proposers) or set(failures) != set(self.proposers):
            raise StateError(
                f"the saved mixture has the proposers {sorted(successes)}, this one "
                f"{sorted(self.proposers)}; required: the same"
            )
        super().load_state_dict(state)
        self._successes, self._failures = successes, failures
        self._open = Counter({name: int(count) for name, count in unseen.items()})
        self._caught = caught
