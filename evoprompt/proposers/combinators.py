"""Proposers around other proposers, and the one that never proposes anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from pydantic import BaseModel, Field, JsonValue

from evoprompt.errors import InputError, StateError, warn
from evoprompt.lm import LmSettings
from evoprompt.plugins import Choice, build, plugins
from evoprompt.roles import BuildContext, ProposalRequest, Proposer
from evoprompt.text import format_error_with_place
from evoprompt.types import Estimate, Proposal, VerificationResult

_MEMORY = 0.9  # of a trial is kept at every request
_MOST = 1_000  # proposals of one request; a generator may have no end


class _Wrapped(BaseModel):
    """State of a wrapper."""

    inner: list[dict[str, JsonValue]]
    caught: int


class _Trials(BaseModel):
    """State of a mixture: what became of proposals, by who wrote them."""

    successes: dict[str, float]
    failures: dict[str, float]
    open: dict[str, int]


class NoProposer(Proposer):
    """Never proposes anything; an engine with it keeps its seeds (a static instruction)."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """An empty list."""
        del request
        return []


class Wrapper(Proposer):
    """Passes on to the proposers inside what is not asked of itself, and counts what it catches.

    Args:
        inner: the proposers, the first of which counts most; at least one.
    """

    def __init__(self, *inner: Proposer) -> None:
        self.inner = inner
        self._notices: list[str] = []
        self._caught = 0

    def check(self, probe: bool = False) -> None:
        """Checks all."""
        for one in self.inner:
            one.check(probe)

    def feedback(self, results: Sequence[VerificationResult]) -> None:
        """Tells all."""
        for one in self.inner:
            one.feedback(results)

    def notices(self) -> Sequence[str]:
        """What was noted since the last time, and what any of them has to say."""
        own, self._notices = self._notices, []
        return [*own, *(text for one in self.inner for text in one.notices())]

    @property
    def failures_caught(self) -> int:
        """Failures of them that were not passed on, and those that they have caught themselves."""
        return self._caught + sum(one.failures_caught for one in self.inner)

    def metrics(self) -> Mapping[str, float]:
        """The totals of all."""
        return {name: n for one in reversed(self.inner) for name, n in one.metrics().items()}

    def estimate(self, generations: int, count: int, parents: int) -> Estimate:
        """The cost of the first."""
        return self.inner[0].estimate(generations, count, parents)

    def state_dict(self) -> dict[str, JsonValue]:
        """The states of all, and how many failures were caught."""
        return _Wrapped(
            inner=[one.state_dict() for one in self.inner], caught=self._caught
        ).model_dump(mode="json")

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``.

        Raises:
            ValueError: it is not the state of so many proposers.
        """
        saved = _Wrapped.model_validate(dict(state))
        for one, mine in zip(self.inner, saved.inner, strict=True):
            one.load_state_dict(mine)
        self._caught = saved.caught


def signed(proposals: Iterable[Proposal], name: str) -> list[Proposal]:
    """``proposals``, the unsigned ones signed with ``name``; the first ones if there is no end.

    Raises:
        InputError: they are something else.
    """
    found = list(islice(proposals, _MOST)) if isinstance(proposals, Iterable) else [proposals]
    for one in found:
        if not isinstance(one, Proposal):
            raise InputError(
                f"it returned {one!r:.60}, which is no Proposal; required: a list of them; write "
                "[Proposal.of(text, request.parents[0].candidate)]"
            )
    return [replace(one, proposer=one.proposer or name) for one in found]


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
            warn(f"{self.second.name} proposes until this is fixed: {error}")

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


class Mixture(Wrapper):
    """A bandit over proposers that learns whose offspring get admitted.

    It splits every request among proposers by Thompson sampling. Each proposal is a trial of the
    proposer that wrote it and a success if the candidate is admitted; one that never reached
    verification (screening refused it, the proposer failed) is a failure too. For each proposal
    wished for, a success rate is drawn from every proposer's Beta(1 + successes, 1 + failures) and
    the highest draw writes it. Old trials fade: what helps a policy changes while it learns.

    Args:
        proposers: by name; the name signs their proposals.

    Raises:
        InputError: there are no proposers.
    """

    name = "mixture"
    slow = True

    class Settings(BaseModel, extra="forbid"):
        """What a configuration may set."""

        proposers: list[Choice] = Field(min_length=1, description="the proposers to choose from")
        lm: LmSettings | None = Field(default=None, description="for those that bring none")

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
        return cls(proposers)

    def __init__(self, proposers: Mapping[str, Proposer]) -> None:
        if not proposers:
            raise InputError("a mixture has no proposers; required: at least one; name some")
        super().__init__(*proposers.values())
        self.proposers = dict(proposers)
        none = dict.fromkeys(self.proposers, 0)
        self._trials = _Trials.model_validate({"successes": none, "failures": none, "open": none})

    def _betas(self) -> dict[str, tuple[float, float]]:
        """Parameters of what is believed of the success rate of each proposer."""
        won, lost = self._trials.successes, self._trials.failures
        return {name: (1 + won[name], 1 + lost[name]) for name in self.proposers}

    @property
    def success_rates(self) -> dict[str, float]:
        """Expected share of admitted proposals of each proposer, in (0, 1)."""
        return {name: won / (won + lost) for name, (won, lost) in self._betas().items()}

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Proposals of the proposers drawn, signed with their names.

        Raises:
            Exception: what the last proposer raised, if all failed.
        """
        self._close()
        counts = self._draw(request)
        proposals: list[Proposal] = []
        errors: list[Exception] = []
        for name, count in counts.items():
            try:
                written = self.proposers[name].propose(replace(request, count=count))[:count]
            except Exception as error:
                errors.append(error)
                self._notices.append(
                    f"{name} failed in the mixture: {format_error_with_place(error)}"
                )
                written = []
            proposals += [replace(one, proposer=name) for one in written]
            self._trials.open[name] += len(written)
            self._trials.failures[name] += count - len(written)
        if errors and not proposals:
            self._caught += len(errors) - 1
            raise errors[-1]
        self._caught += len(errors)
        return proposals

    def _draw(self, request: ProposalRequest) -> Counter[str]:
        counts: Counter[str] = Counter()
        betas = self._betas()
        for _ in range(request.count):
            draws = {name: request.rng.betavariate(*beta) for name, beta in betas.items()}
            counts[max(draws, key=draws.__getitem__)] += 1
        return counts

    def _close(self) -> None:
        """Counts what came to nothing as failures, and lets all trials fade."""
        trials = self._trials
        for name in self.proposers:
            trials.failures[name] = _MEMORY * (trials.failures[name] + trials.open[name])
            trials.successes[name] *= _MEMORY
            trials.open[name] = 0

    def feedback(self, results: Sequence[VerificationResult]) -> None:
        """Counts admissions and refusals for the proposers that signed the candidates."""
        trials = self._trials
        for result in results:
            name = result.candidate.proposer
            if trials.open.get(name, 0) > 0:
                trials.open[name] -= 1
                (trials.successes if result.is_admitted else trials.failures)[name] += 1
        for name, proposer in self.proposers.items():
            if own := [one for one in results if one.candidate.proposer == name]:
                proposer.feedback(own)

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
        """All trials, and what every wrapper keeps."""
        return {**super().state_dict(), **self._trials.model_dump(mode="json")}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``.

        Raises:
            StateError: it is of a mixture of other proposers.
        """
        trials = _Trials.model_validate(dict(state))
        if trials.successes.keys() != self.proposers.keys():
            raise StateError(
                f"the saved mixture has the proposers {sorted(trials.successes)}, this one "
                f"{sorted(self.proposers)}; required: the same"
            )
        super().load_state_dict(state)
        self._trials = trials
