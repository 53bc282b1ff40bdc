"""New candidates: the proposer is asked, and what it wrote passes screening."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from pydantic import JsonValue

from evoprompt.candidates import Screening, summarise
from evoprompt.errors import InputError
from evoprompt.events import Event, Notice, Proposed
from evoprompt.faults import naming
from evoprompt.lm.errors import BudgetError
from evoprompt.optimizer.journal import Answered, Journal
from evoprompt.optimizer.outcome import LM_SPENT, BudgetSpentError
from evoprompt.proposers.wrapper import signed
from evoprompt.replay import ReplayBuffer
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.text import told_with_place, words_of
from evoprompt.types import (
    INSTRUCTION,
    Assignment,
    Candidate,
    Proposal,
    Question,
    Setting,
    TextLimits,
    Trajectory,
    VerificationResult,
)

_REQUIRED = (
    "which is no Proposal; required: a list of them; "
    "write [Proposal.of(text, request.parents[0].candidate)]"
)
_MOST = 100  # proposals of one request; a generator may have no end


class Writer:
    """Asks a proposer for candidates, or reads in the journal what it answered.

    Args:
        proposer: writes the texts.
        journal: has the answers of an earlier process, and takes the new ones.
        emit: takes the events.
        max_tokens: most tokens of an instruction.
        required: texts that every instruction must hold.
        refuse_copies: whether the questions it is shown must not be copied or answered.
        setting: what stands around an instruction, for the proposer to read.

    Attributes:
        required: see above.
        complaint: why nothing came the last time; empty if something did, or nobody says.
        failures: how often it failed; None as soon as it did not.
        asked: how often it was asked.
        passed: texts of it that could be tried.
    """

    def __init__(
        self,
        proposer: Proposer,
        journal: Journal,
        emit: Callable[[Event], None],
        max_tokens: int,
        required: Sequence[str] = (),
        refuse_copies: bool = True,
        setting: Setting | None = None,
    ) -> None:
        self._setting = Setting(trained=False) if setting is None else setting
        self._refusals: list[str] = []
        self.required = tuple(required)
        self._proposer = proposer
        self._journal = journal
        self._emit = emit
        self._shown = ReplayBuffer(failure_below=float("inf"))
        self._refuse_copies = refuse_copies
        self._screening = Screening(None, self._shown, required)
        self._screening.limits = TextLimits(max_tokens=max_tokens)
        self._last = max(journal.answers, default=-1)
        self.complaint = ""
        self.failures: int | None = 0
        self.asked = self.passed = 0
        self._refused = ""

    def seed(self, given: Proposal) -> Candidate:
        """A candidate to start from."""
        return self._screening.new_candidate(given, 0)

    def write(
        self,
        request: ProposalRequest,
        guarded: Sequence[Question],
        living: Sequence[Candidate],
    ) -> list[Candidate]:
        """What the proposer wrote and screening let through.

        Args:
            request: what it is asked.
            guarded: the questions that it sees, which must not be copied.
            living: whom a text must differ from.

        Raises:
            BudgetSpentError: that of its language model is.
        """
        parent = request.parents[0].candidate
        shown = [
            Trajectory(Assignment(question.id, question, parent, 1, question.id), 0.0)
            for question in guarded
        ]
        if self._refuse_copies:
            self._shown.add(request.step, shown)
        answer = self._journal.answers.get(request.step)
        if answer is None:
            alive = {one.id for one in living}
            told_of = [one for one in request.history if one.candidate.id in alive]
            answer = self._ask(
                replace(
                    request,
                    living=told_of,
                    refusals=self._refusals,
                    max_tokens=self._screening.limits.max_tokens,
                    setting=self._setting,
                )
            )
            self._journal.answered(answer)
        elif request.step == self._last:
            self._proposer.load_state_dict(answer.state)  # from here on it is asked again
        for message in answer.notices:
            self._emit(Notice(request.step, message))
        if not answer.failed:
            self.failures = None
        elif self.failures is not None:
            self.failures += 1
        self.complaint = "" if answer.proposals else "; ".join(answer.notices[-1:])
        if answer.spent:
            raise BudgetSpentError(LM_SPENT)
        fresh = self.screen(answer.proposals, parent, living, request.step)
        findings = self._screening.findings
        self._refusals = [f"{one.rule}: {one.reason}" for one in findings]
        if len(findings) > 1:
            self._refused = f"screening refused all {len(findings)}: {summarise(findings)}"
        self.asked += 1
        self.passed += len(fresh)
        if not fresh:
            self.complaint = self.complaint or self._refused or "it returned no text"
        return fresh

    def screen(
        self,
        proposals: Sequence[Proposal],
        parent: Candidate,
        living: Sequence[Candidate],
        step: int,
    ) -> list[Candidate]:
        """Those of ``proposals`` that pass, as candidates."""
        self._refused = ""
        fresh = self._screening.screen(proposals, living, parent, step)
        for event in self._screening.events:
            self._tell(event)
        return fresh

    def teach(self, result: VerificationResult) -> None:
        """Tells the proposer what became of a candidate.

        A text that was turned away on a few questions is not refuted: it may be proposed again.
        """
        with naming("proposer", self._proposer):
            self._proposer.feedback([result])

    def _tell(self, event: Event) -> None:
        if isinstance(event, Proposed) and event.rule:
            self._refused = f"its text was refused ({event.rule}: {event.reason})"
        self._emit(event)

    def _ask(self, request: ProposalRequest) -> Answered:
        proposer = self._proposer
        notices: list[str] = []
        proposals: list[Proposal] = []
        spent = failed = False
        try:
            proposals = signed(_listed(proposer.propose(request)), proposer.name)
        except Exception as error:  # a proposer's failure costs an iteration, not the run
            spent, failed = isinstance(error, BudgetError), True
            notices.append(f"the proposer failed: {told_with_place(error)}")
        with naming("proposer", proposer):
            notices += proposer.notices()
        # What JSON cannot carry is refused now, not on a resume.
        state: dict[str, JsonValue] = json.loads(json.dumps(proposer.state_dict(), allow_nan=False))
        return Answered(request.step, proposals, notices, state, spent, failed)


def setting_of(program: object, metric: object) -> Setting:
    """What a proposer can be told of a program: its own ``setting``, or what its docstring says."""
    own = getattr(program, "setting", None)
    found = own if isinstance(own, Setting) else Setting(components=_taken_by(program))
    return replace(found, reward=found.reward or words_of(metric), trained=False)


def _taken_by(program: object) -> Mapping[str, str]:
    words = words_of(program)
    return {INSTRUCTION: f"the text that is given to the program {words}"} if words else {}


def _listed(answer: object) -> list[Proposal]:
    """What a proposer returned, the first of it if it has no end.

    Raises:
        InputError: it is no proposals.
    """
    if not isinstance(answer, Iterable) or isinstance(answer, str | Mapping):
        raise InputError(f"it returned {answer!r:.60}, {_REQUIRED}")
    found = []
    for one in islice(answer, _MOST):
        if not isinstance(one, Proposal):
            raise InputError(f"it returned {one!r:.60} among its proposals, {_REQUIRED}")
        found.append(one)
    return found
