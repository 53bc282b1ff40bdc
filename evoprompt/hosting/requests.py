"""Requests of a person to a running training, as files that are written atomically.

A request is a file in the folder ``pool`` beside the event log. When the training carries it out,
the step is written into the file: a run that is resumed from an earlier step carries the request
out at the same step again.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, TypeAdapter, ValidationError

from evoprompt.engine import Engine
from evoprompt.log.events import Intervened, Notice
from evoprompt.support.errors import InputError, warn
from evoprompt.support.storage import write_whole
from evoprompt.types import Candidate, VerificationResult

Action = Literal["add", "retire", "pin", "unpin", "approve", "refuse"]

_LOOKS_EVERY = 0.2  # seconds

FOLDER = "pool"
"""Name of the folder beside the event log."""

WAITING = "waiting.json"
"""Name of the file with the candidates that wait for an answer; there while they do."""


class UserRequest(BaseModel, frozen=True, extra="forbid"):
    """Request of a person.

    Attributes:
        id: identifier that sorts by the time of writing.
        action: requested action.
        candidate: id of the candidate; empty for ``add``.
        components: texts to add; for ``approve`` and ``refuse``, once carried out, the texts of the
            candidate.
        override: whether to add it in spite of screening.
        by: name of the person; ``"timeout"`` after a timeout.
        step: engine step at which it was carried out; None until then.
    """

    id: str
    action: Action
    candidate: str = ""
    components: dict[str, str] = {}
    override: bool = False
    by: str = "a person"
    step: int | None = None


_WAITING = TypeAdapter(list[VerificationResult])


class RequestFiles:
    """Requests to one training.

    Args:
        log: the event log; None for a log in memory, which takes no requests.
    """

    def __init__(self, log: Path | None) -> None:
        self.root = None if log is None else log.parent / FOLDER

    def ask(
        self,
        action: Action,
        candidate: str = "",
        components: dict[str, str] | None = None,
        *,
        override: bool = False,
        by: str = "a person",
    ) -> UserRequest:
        """Write a request that the engine carries out at its next step, and return it.

        Args:
            action: requested action.
            candidate: id of the candidate; for all but ``add``.
            components: texts to add.
            override: whether to add them in spite of screening.
            by: name of the person.
        """
        root = self._existing()
        identity = f"{time.time_ns():020}-{uuid.uuid4().hex[:8]}"
        request = UserRequest(
            id=identity,
            action=action,
            candidate=candidate,
            components=components or {},
            override=override,
            by=by,
        )
        write_whole(root / f"{identity}.json", request.model_dump_json(indent=2))
        return request

    def record_completion(
        self, request: UserRequest, step: int, components: dict[str, str] | None = None
    ) -> None:
        """Record durably that ``request`` was carried out at ``step``."""
        if request.step is None:
            changes = {"step": step} | ({"components": components} if components else {})
            text = request.model_copy(update=changes).model_dump_json(indent=2)
            write_whole(self._existing() / f"{request.id}.json", text)

    def everything(self) -> list[UserRequest]:
        """Return all requests, oldest first.

        Raises:
            InputError: a file in the folder is no request.
        """
        if self.root is None or not self.root.is_dir():
            return []
        files = sorted(file for file in self.root.glob("[0-9]*.json"))
        return [_read(file) for file in files]

    def write_waiting(self, waiting: Sequence[VerificationResult]) -> None:
        """Write a file of the candidates that wait for approval; remove it if there are none."""
        file = self._existing() / WAITING
        if waiting:
            write_whole(file, _WAITING.dump_json(list(waiting), indent=2).decode())
        else:
            file.unlink(missing_ok=True)

    def waiting(self) -> list[VerificationResult]:
        """Return the candidates that wait for approval.

        Raises:
            InputError: the file is damaged.
        """
        if self.root is None:
            return []
        file = self.root / WAITING
        try:
            return _WAITING.validate_json(file.read_bytes())
        except FileNotFoundError:  # also where the last answer has just come
            return []
        except ValidationError as error:
            raise InputError(
                f"{file} does not name the waiting candidates ({error.error_count()} errors); "
                "required: a file that a waiting training wrote; remove it"
            ) from error

    def _existing(self) -> Path:
        if self.root is None:
            raise InputError(
                "the events of this engine are kept in memory, so that it receives no requests; "
                "required: attach(..., log_dir=DIR), or log=EventLog(PATH)"
            )
        return self.root


class ApprovalQueue:
    """Queue that carries out the requests of persons between the steps of an engine.

    A resumed run carries out again, at the same steps, the requests after its checkpoint.

    Args:
        engine: the engine.
        requests: the requests.
    """

    def __init__(self, engine: Engine, requests: RequestFiles) -> None:
        self.requests = requests
        self._engine = engine
        self._taken: set[str] = set()
        self._damaged = False

    def poll(self) -> None:
        """Carry out the changes that are due, after a step of the engine."""
        step = self._engine.step
        try:
            due = self._pending_requests("add", "retire", "pin", "unpin")
        except InputError as error:
            if not self._damaged:
                self._damaged = True
                self._warn(str(error))
            return
        for request in due:
            if request.step is not None and request.step < step:
                continue  # taken up before the checkpoint that was resumed from
            name, done, reason = self._do(request)
            self._record_request(request)
            event = Intervened(step, request.id, request.action, name, request.by, done, reason)
            self._engine.log.append(event)

    def filter_approved(self, admitted: Sequence[VerificationResult]) -> list[VerificationResult]:
        """Return the candidates that a person approves; wait for answers if they are required."""
        approval = self._engine.config.approve
        if approval.mode == "auto" or not admitted:
            return list(admitted)
        answers: dict[str, bool] = {}
        announced: list[VerificationResult] = []
        deadline = time.monotonic() + approval.timeout
        try:
            while waiting := self._unanswered(admitted, answers):
                if time.monotonic() >= deadline:
                    for result in waiting:
                        candidate_id, texts = result.candidate.id, dict(result.candidate.components)
                        self.requests.ask(approval.default, candidate_id, texts, by="timeout")
                    continue
                if waiting != announced:
                    self.requests.write_waiting(waiting)
                if not announced:
                    self._tell_of(waiting)
                announced = waiting
                time.sleep(_LOOKS_EVERY)
        finally:
            self.requests.write_waiting([])
        return [result for result in admitted if answers[result.candidate.id]]

    def _pending_requests(self, *actions: Action) -> list[UserRequest]:
        """Return the requests for ``actions`` that are not carried out yet, oldest first."""
        return [
            request
            for request in self.requests.everything()
            if request.action in actions
            and request.id not in self._taken
            and (request.step is None or request.step <= self._engine.step)
        ]

    def _record_request(
        self, request: UserRequest, components: dict[str, str] | None = None
    ) -> None:
        self._taken.add(request.id)
        self.requests.record_completion(request, self._engine.step, components)

    def _do(self, request: UserRequest) -> tuple[str, bool, str]:
        """Return the id of the candidate, whether the request succeeded, and the objection."""
        engine, name = self._engine, request.candidate
        match request.action:
            case "add":
                candidate, objection = engine.add(
                    request.components, by=request.by, override=request.override
                )
                if candidate is None:
                    return "", False, objection
                return candidate.id, True, f"over screening's {objection}" if objection else ""
            case "retire":
                objection = engine.retire(name)
            case _:
                objection = engine.pin(name, request.action == "pin")
        return name, not objection, objection

    def _unanswered(
        self, admitted: Sequence[VerificationResult], answers: dict[str, bool]
    ) -> list[VerificationResult]:
        """Return the candidates without an answer; record the answers."""
        candidates = {result.candidate.id: result.candidate for result in admitted}
        for request in self._pending_requests("approve", "refuse"):
            candidate = candidates.get(request.candidate)
            if candidate is None or candidate.id in answers:
                continue
            texts = dict(candidate.components)
            # Of another training, perhaps, which had another candidate of this name.
            if not request.components or request.components == texts:
                self._record_request(request, texts)
                self._answer(request, candidate, answers)
        return [result for result in admitted if result.candidate.id not in answers]

    def _answer(self, request: UserRequest, candidate: Candidate, answers: dict[str, bool]) -> None:
        step, approval = self._engine.step, self._engine.config.approve
        answers[candidate.id] = request.action == "approve"
        if request.action == "refuse":
            self._engine.screening.remember_rejected(candidate)
        event = Intervened(step, request.id, request.action, candidate.id, request.by, True)
        self._engine.log.append(event)
        if request.by == "timeout":
            message = (
                f"no answer about {candidate.id} within {approval.timeout:g} s: {request.action}d, "
                "as approve.default says"
            )
            self._engine.log.notice(step, message)

    def _tell_of(self, waiting: Sequence[VerificationResult]) -> None:
        approval = self._engine.config.approve
        names = ", ".join(result.candidate.id for result in waiting)
        self._warn(
            f"{names} wait to be admitted at step {self._engine.step}, and training waits with "
            "them: evoprompt pool approve RUN ID, or refuse; in "
            f"{approval.timeout:g} s the answer is {approval.default!r}"
        )

    def _warn(self, message: str) -> None:
        self._engine.log.show(Notice(self._engine.step, message))
        warn(message)


def supervise(engine: Engine) -> None:
    """Accept requests of persons for an engine whose events are in a file."""
    if engine.log.path is not None and engine.supervisor is None:
        engine.supervisor = ApprovalQueue(engine, RequestFiles(engine.log.path))


def _read(file: Path) -> UserRequest:
    try:
        return UserRequest.model_validate_json(file.read_bytes())
    except (OSError, ValidationError) as error:
        raise InputError(
            f"{file} is no request ({type(error).__name__}); required: one written by evoprompt "
            "pool; delete it"
        ) from error
