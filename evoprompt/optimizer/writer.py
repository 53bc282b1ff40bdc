"""New candidates: the proposer is asked, and what it wrote passes screening."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import JsonValue

from evoprompt.components import BuildContext
from evoprompt.lm.budget import SpendTracker
from evoprompt.lm.client import GivenLm, told_apart
from evoprompt.log.events import Event, Notice
from evoprompt.optimizer.journal import Answered, Journal
from evoprompt.optimizer.options import OptimizeOptions
from evoprompt.optimizer.outcome import LM_SPENT, BudgetSpentError
from evoprompt.plugins import build, naming, plugins, require_type
from evoprompt.proposers.combinators import signed
from evoprompt.replay import ReplayBuffer
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.screening import Screening, summarise
from evoprompt.support.errors import BudgetError, InputError
from evoprompt.support.text import format_error_with_place
from evoprompt.types import (
    Assignment,
    Candidate,
    Proposal,
    Question,
    TaskContext,
    TextLimits,
    Trajectory,
    VerificationResult,
)


@dataclass(eq=False)
class Writer:
    """Asks a proposer for candidates, or reads in the journal what it answered.

    Attributes:
        proposer: writes the texts.
        journal: has the answers of an earlier process, and takes the new ones.
        emit: takes the events.
        options: say what a text must hold and must not.
        setting: what stands around an instruction, for the proposer to read.
        trainset: all training questions, as texts.
        complaint: why nothing came the last time; empty if something did.
        failures: how often it failed; None as soon as it did not.
        passed: texts of it that could be tried.
        calls: requests to it, those of an earlier process included.
    """

    proposer: Proposer
    journal: Journal
    emit: Callable[[Event], None]
    options: OptimizeOptions
    setting: TaskContext
    trainset: Sequence[str]

    def __post_init__(self) -> None:
        """Begins with nothing refused."""
        self._shown = ReplayBuffer(failure_below=float("inf"))
        self._screening = Screening(None, self._shown, self.options.required)
        self._screening.limits = TextLimits(max_tokens=self.options.max_tokens)
        self._screening.trainset = self.trainset
        self._last = max(self.journal.answers, default=-1)
        self.complaint = ""
        self.failures: int | None = 0
        self.passed = 0
        self.calls = 0

    def seed(self, given: Proposal) -> Candidate:
        """A candidate to start from."""
        return self._screening.seed(given)

    def write(
        self,
        request: ProposalRequest,
        guarded: Sequence[Question],
    ) -> list[Candidate]:
        """What the proposer wrote and screening let through.

        Args:
            request: what it is asked.
            guarded: the questions that it sees, which must not be copied.

        Raises:
            BudgetSpentError: that of its language model is.
        """
        parent = request.parents[0].candidate
        if self.options.refuse_copies:
            self._shown.add(
                request.step,
                [Trajectory(Assignment(one.id, one, parent, 1, one.id), 0.0) for one in guarded],
            )
        self.calls += 1
        answer = self.journal.answers.get(request.step)
        if answer is None:
            answer = self._ask(
                replace(
                    request,
                    members=request.parents,
                    rejections=[*map(str, self._screening.findings)],
                    required=tuple(self.options.required),
                    max_tokens=self.options.max_tokens,
                    setting=self.setting,
                )
            )
            self.journal.add_answer(answer)
        elif request.step == self._last:
            self.proposer.load_state_dict(answer.state)  # from here on it is asked again
        for message in answer.notices:
            self.emit(Notice(request.step, message))
        if not answer.failed:
            self.failures = None
        elif self.failures is not None:
            self.failures += 1
        if answer.spent:
            raise BudgetSpentError(LM_SPENT)
        fresh = self._screening.screen(answer.proposals, [parent], parent, request.step)
        for event in self._screening.events:
            self.emit(event)
        self.passed += len(fresh)
        self.complaint = ""
        if not fresh:
            findings = self._screening.findings
            self.complaint = "; ".join(answer.notices[-1:]) or "it returned no text"
            if len(findings) == 1:
                (one,) = findings
                self.complaint = f"its text was refused ({one.rule}: {one.reason})"
            elif findings:
                self.complaint = f"screening refused all {len(findings)}: {summarise(findings)}"
        return fresh

    def teach(self, result: VerificationResult) -> None:
        """Tells the proposer what became of a candidate.

        A text that was refused on a few questions is not refuted: it may be proposed again.
        """
        with naming("proposer", self.proposer):
            self.proposer.feedback([result])

    def _ask(self, request: ProposalRequest) -> Answered:
        proposer = self.proposer
        notices: list[str] = []
        proposals: list[Proposal] = []
        spent = failed = False
        try:
            proposals = signed(proposer.propose(request), proposer.name)
        except Exception as error:  # a proposer's failure costs an iteration, not the run
            spent, failed = isinstance(error, BudgetError), True
            notices.append(f"the proposer failed: {format_error_with_place(error)}")
        with naming("proposer", proposer):
            notices += proposer.notices()
        # What JSON cannot carry is refused now, not on a resume.
        state: dict[str, JsonValue] = json.loads(json.dumps(proposer.state_dict(), allow_nan=False))
        return Answered(request.step, proposals, notices, state, spent, failed)


def built(
    proposer: str | Proposer,
    lm: GivenLm | None,
    root: Path | None,
    spending: SpendTracker,
) -> Proposer:
    """The proposer of an optimization, whose language model has answered.

    Args:
        proposer: its name, or itself.
        lm: its language model.
        root: folder of the optimization.
        spending: takes what the language model costs.

    Raises:
        InputError: the two do not go together, or the language model gives no answer.
    """
    if not isinstance(proposer, str):
        if lm is not None:
            raise InputError(
                "lm is given beside a proposer that is an object; required: a proposer's name, or "
                "no lm; build the object with its own language model"
            )
        require_type("proposer", proposer, Proposer)
        return proposer
    takes = plugins().find("proposer", proposer).component.Settings.model_fields
    if lm is None and "lm" in takes and takes["lm"].is_required():
        raise InputError(
            f"lm is not given, and the proposer {proposer!r} asks a language model; required: the "
            'one that reflects and writes, such as lm="openai/gpt-5-mini"; or another proposer'
        )
    # In this thread: there is no training to go on meanwhile.
    settings: dict[str, object] = {"name": proposer, "background": False}
    given = None
    if lm is not None:
        settings["lm"], given = told_apart(lm)
    context = BuildContext(directory=root, spending=spending, given=given)
    found = build("proposer", settings, context)
    found.check(probe=True)  # a rollout costs more than a word
    return found
