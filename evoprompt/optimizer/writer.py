"""Requests for new candidates: the proposer writes them, and screening accepts or rejects them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import JsonValue

from evoprompt.components import BuildContext
from evoprompt.lm.budget import SpendTracker
from evoprompt.lm.client import GivenLm, split_settings
from evoprompt.log.events import Event, Notice
from evoprompt.optimizer.journal import Answered, Journal
from evoprompt.optimizer.options import OptimizeOptions
from evoprompt.optimizer.outcome import LM_SPENT, BudgetSpentError
from evoprompt.plugins import build, plugins, require_type
from evoprompt.proposers.combinators import note_cut, signed
from evoprompt.replay import ReplayBuffer
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.rules import placeholders
from evoprompt.screening import Screening, summarise
from evoprompt.support.calls import calling, naming
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
    """Source of candidates: it sends requests to a proposer, or reads the replies in the journal.

    Attributes:
        proposer: writes the texts.
        journal: has the replies of an earlier process, and takes the new ones.
        emit: takes the events.
        options: the rules for a text.
        setting: context of an instruction, for the proposer to read.
        trainset: all training questions, as texts.
        complaint: reason why the last request brought no candidate; empty if it brought one.
        failures: number of failures of the proposer; None once a request has succeeded.
        passed: number of texts that screening accepted.
        calls: requests to the proposer, those of an earlier process included.
    """

    proposer: Proposer
    journal: Journal
    emit: Callable[[Event], None]
    options: OptimizeOptions
    setting: TaskContext
    trainset: Sequence[str]

    def __post_init__(self) -> None:
        """Begin without rejected texts."""
        self._read_questions = ReplayBuffer(failure_below=float("inf"))
        self._screening = Screening(None, self._read_questions, self.options.required)
        self._screening.limits = TextLimits(max_tokens=self.options.max_tokens)
        self._screening.trainset = self.trainset
        self._last = max(self.journal.answers, default=-1)
        self._seed_placeholders = set[str]()
        self.complaint = ""
        self.failures: int | None = 0
        self.passed = 0
        self.calls = 0

    def seed(self, proposal: Proposal) -> Candidate:
        """Return the candidate of a seed."""
        self._seed_placeholders.update(
            slot for text in proposal.components.values() for slot in placeholders(text)
        )
        return self._screening.seed(proposal)

    def _required_texts(self, text: str) -> tuple[str, ...]:
        """Return what a new text must hold: the setting, and the placeholders of the seeds in it.

        Screening rejects a text without them, so the proposer reads them in its first request.
        """
        slots = [slot for slot in placeholders(text) if slot in self._seed_placeholders]
        return tuple(dict.fromkeys((*self.options.required, *slots)))

    def write(
        self,
        request: ProposalRequest,
        guarded: Sequence[Question],
    ) -> list[Candidate]:
        """Return the candidates that the proposer wrote and screening accepted.

        Args:
            request: the request to the proposer.
            guarded: the questions that the proposer reads, which must not be copied.

        Raises:
            BudgetSpentError: the budget of the proposer's language model is spent.
        """
        parent = request.parents[0].candidate
        if self.options.refuse_copies:
            self._read_questions.add(
                request.step,
                [
                    Trajectory(Assignment(question.id, question, parent, 1, question.id), 0.0)
                    for question in guarded
                ],
            )
        self.calls += 1
        answer = self.journal.answers.get(request.step)
        if answer is None:
            answer = self._send_request(
                replace(
                    request,
                    members=request.parents,
                    rejections=[*map(str, self._screening.findings)],
                    required=self._required_texts(parent.components.get(request.component, "")),
                    max_tokens=self.options.max_tokens,
                    setting=self.setting,
                )
            )
            self.journal.add_answer(answer)
        elif request.step == self._last:
            self.proposer.load_state_dict(answer.state)  # later requests are sent to the proposer
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
                (finding,) = findings
                self.complaint = f"its text was refused ({finding.rule}: {finding.reason})"
            elif findings:
                self.complaint = f"screening refused all {len(findings)}: {summarise(findings)}"
        return fresh

    def give_feedback(self, result: VerificationResult) -> None:
        """Report the verification of a candidate to the proposer.

        A text that was rejected on a few questions is not refuted: it may be proposed again.
        """
        with naming("proposer", self.proposer):
            self.proposer.feedback([result])

    def _send_request(self, request: ProposalRequest) -> Answered:
        proposer = self.proposer
        notices: list[str] = []
        proposals: list[Proposal] = []
        is_spent = has_failed = False
        try:
            with calling("proposer", proposer):
                proposals = signed(proposer.propose(request), proposer.name)
        except Exception as error:  # a proposer's failure costs an iteration, not the run
            is_spent, has_failed = isinstance(error, BudgetError), True
            notices.append(f"the proposer failed: {format_error_with_place(error)}")
        with naming("proposer", proposer):
            notices += proposer.notices()
        if cut := note_cut(proposals, proposer):
            notices.append(cut)
        # A state that JSON cannot carry is refused now, not on a resume.
        state: dict[str, JsonValue] = json.loads(json.dumps(proposer.state_dict(), allow_nan=False))
        return Answered(request.step, proposals, notices, state, is_spent, has_failed)


def built(
    proposer: str | Proposer,
    lm: GivenLm | None,
    root: Path | None,
    spending: SpendTracker,
) -> Proposer:
    """Return the proposer of an optimization, after a first response of its language model.

    Args:
        proposer: the name of a proposer, or a proposer.
        lm: its language model.
        root: folder of the optimization.
        spending: counts the cost of the language model.

    Raises:
        InputError: ``proposer`` and ``lm`` do not go together, or the language model gives no
            response.
    """
    if not isinstance(proposer, str):
        require_type("proposer", proposer, Proposer)
        if lm is not None:
            raise InputError(
                "lm is given beside a proposer that is an object; required: a proposer's name, or "
                "no lm; build the object with its own language model"
            )
        return proposer
    setting_fields = plugins().find("proposer", proposer).component.Settings.model_fields
    if lm is None and "lm" in setting_fields and setting_fields["lm"].is_required():
        raise InputError(
            f"lm is not given, and the proposer {proposer!r} asks a language model; required: the "
            'one that reflects and writes, such as lm="openai/gpt-5-mini"; or another proposer'
        )
    # In this thread: there is no training that could continue meanwhile.
    settings: dict[str, object] = {"name": proposer, "background": False}
    connection = None
    if lm is not None:
        settings["lm"], connection = split_settings(lm)
    context = BuildContext(directory=root, spending=spending, connection=connection)
    built_proposer = build("proposer", settings, context)
    built_proposer.check(probe=True)  # a short request is cheaper than a rollout
    return built_proposer
