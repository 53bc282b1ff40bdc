"""Where a person has a say: changes to the population, and the approval of who is admitted."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence

from pydantic import JsonValue

from evoprompt.config import Approval
from evoprompt.engine.requests import Request, RequestFolder, Waiting, matches
from evoprompt.engine.screening import Screening
from evoprompt.engine.selection import Selection
from evoprompt.errors import EvopromptWarning, InputError
from evoprompt.events import Event, Intervened, Notice, Pruned
from evoprompt.roles import Population
from evoprompt.types import Candidate, Proposal, VerificationResult

_LOOKS_EVERY = 0.2  # seconds


class Desk:
    """Takes up what a person asks, at the boundaries of steps.

    Args:
        requests: what is asked.
        approval: whether admissions wait for an answer.
        population: who is alive.
        selection: who of them is pinned.
        screening: judges what a person writes.
        most: candidates that the population has room for.
        emit: takes the events.
        show: takes what is only for the moment.
        trying: ids of candidates on probation.
    """

    def __init__(
        self,
        requests: RequestFolder,
        approval: Approval,
        population: Population,
        selection: Selection,
        screening: Screening,
        most: int,
        emit: Callable[[Event], None],
        show: Callable[[Event], None],
        trying: Callable[[], frozenset[str]],
    ) -> None:
        self.requests = requests
        self._approval = approval
        self._population = population
        self._selection = selection
        self._screening = screening
        self._most = most
        self._emit = emit
        self._show = show
        self._trying = trying
        self._damaged = False

    def require_open(self) -> None:
        """Nothing, if whom this training will have to ask can be asked.

        Raises:
            InputError: admissions wait for an answer, and nobody can give one.
        """
        if self._approval.mode == "ask" and self.requests.root is None:
            raise InputError(
                "approve is 'ask', but the events of this engine are kept in memory, so that "
                "nobody can be asked; required: attach(..., log_dir=DIR), or log=EventLog(PATH)"
            )

    # ------------------------------------------------------------------------------- population

    def attend(self, step: int) -> None:
        """Takes up the changes that are due, at the end of engine step ``step``."""
        try:
            due = self.requests.due(step, "add", "retire", "pin", "unpin")
        except InputError as error:
            if not self._damaged:
                self._damaged = True
                self._show(Notice(step, str(error)))
                warnings.warn(str(error), EvopromptWarning, stacklevel=2)
            return
        for request in due:
            name, reason = self._do(request, step)
            self.requests.take(request, step)
            done = not reason or reason.startswith("over ")
            self._emit(Intervened(step, request.id, request.action, name, request.by, done, reason))

    def _do(self, request: Request, step: int) -> tuple[str, str]:
        """Id of the candidate concerned, and why it was not done, or over whose objection."""
        if request.action == "add":
            return self._add(request, step)
        name = request.candidate
        if name not in self._population:
            return name, "not alive"
        match request.action:
            case "pin":
                self._selection.pinned.add(name)
            case "unpin":
                self._selection.pinned.discard(name)
            case _:
                return name, self._retire(name, step)
        return name, ""

    def _add(self, request: Request, step: int) -> tuple[str, str]:
        living = self._population.alive
        if len(living) >= self._most:
            return "", f"all {self._most} places of the population are taken; retire one first"
        best = self._selection.best
        texts = dict(best.components) | request.components
        proposal = Proposal(texts, (best.id,), f"asked for by {request.by}", "person")
        found, finding = self._screening.screen_written(
            proposal, living, best, step, override=request.override
        )
        if found is not None:
            self._population.add(found)
        over = f"over the firewall's {finding.rule}: " if found is not None and finding else ""
        rule = f"{finding.rule}: " if finding and not over else ""
        return (found.id if found else ""), f"{over}{rule}{finding.reason}" if finding else ""

    def _retire(self, name: str, step: int) -> str:
        alive = [one.id for one in self._population.alive]
        if len(alive) == 1:
            return "the only one alive"
        if name in self._trying():
            return "on probation, which decides on it"
        self._selection.pinned.discard(name)
        dropped = self._selection.keep_only({one for one in alive if one != name})
        self._emit(Pruned(step, dropped, tuple(one for one in alive if one != name)))
        return ""

    # --------------------------------------------------------------------------------- approval

    def approved(
        self, admitted: Sequence[VerificationResult], step: int
    ) -> list[VerificationResult]:
        """Those of ``admitted`` who may come in; waits for answers where they are asked for."""
        if self._approval.mode == "auto" or not admitted:
            return list(admitted)
        answers: dict[str, bool] = {}
        said = False
        deadline = time.monotonic() + self._approval.timeout
        try:
            while True:
                for result in admitted:
                    self._look(result.candidate, step, answers)
                open_ = [one for one in admitted if one.candidate.id not in answers]
                if not open_ or time.monotonic() >= deadline:
                    break
                self.requests.announce([_waiting(one) for one in open_])
                if not said:
                    said = True
                    self._tell_of(open_, step)
                time.sleep(_LOOKS_EVERY)
        finally:
            self.requests.announce([])
        for result in open_:
            self._decide_alone(result.candidate, step, answers)
        return [one for one in admitted if answers[one.candidate.id]]

    def _look(self, candidate: Candidate, step: int, answers: dict[str, bool]) -> None:
        for request in self.requests.due(step, "approve", "refuse"):
            if candidate.id not in answers and matches(request, candidate):
                self.requests.take(request, step, dict(candidate.components))
                self._answer(request, candidate, step, answers)

    def _decide_alone(self, candidate: Candidate, step: int, answers: dict[str, bool]) -> None:
        default = self._approval.default
        request = self.requests.ask(
            default, candidate.id, dict(candidate.components), by="timeout", step=step
        )
        self.requests.take(request, step)
        self._answer(request, candidate, step, answers)

    def _answer(
        self, request: Request, candidate: Candidate, step: int, answers: dict[str, bool]
    ) -> None:
        answers[candidate.id] = request.action == "approve"
        if request.action == "refuse":
            self._screening.remember_refused(candidate)
        said = Intervened(step, request.id, request.action, candidate.id, request.by, True)
        self._emit(said)
        if request.by == "timeout":
            message = (
                f"nobody answered about {candidate.id} within {self._approval.timeout:g} s; "
                f"{request.action}d, as approve.default says"
            )
            self._emit(Notice(step, message))
            warnings.warn(message, EvopromptWarning, stacklevel=2)

    def _tell_of(self, waiting: Sequence[VerificationResult], step: int) -> None:
        names = ", ".join(one.candidate.id for one in waiting)
        message = (
            f"{names} wait to be admitted at step {step}, and training waits with them: evoprompt "
            f"pool approve RUN ID, or refuse; in {self._approval.timeout:g} s the answer is "
            f"{self._approval.default!r}"
        )
        self._show(Notice(step, message))
        warnings.warn(message, EvopromptWarning, stacklevel=2)

    def state_dict(self) -> dict[str, JsonValue]:
        """What was taken up."""
        return self.requests.state_dict()

    def load_state_dict(self, state: dict[str, JsonValue]) -> None:
        """Continues from ``state``."""
        self.requests.load_state_dict(state)


def _waiting(result: VerificationResult) -> Waiting:
    one = result.candidate
    return Waiting(
        id=one.id, components=dict(one.components), mean=result.mean, rationale=one.rationale
    )
