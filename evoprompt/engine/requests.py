"""What a person asks of a training, as files: written whole by one, taken up by the engine.

A request lies in the folder ``pool`` beside the event log. When the engine takes it up it writes
the step into it, so that a run that is resumed from before does so at the same step again.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter, ValidationError

from evoprompt.errors import InputError
from evoprompt.storage import write_whole
from evoprompt.types import Candidate

Action = Literal["add", "retire", "pin", "unpin", "approve", "refuse"]

FOLDER = "pool"
"""Name of the folder beside the event log."""

WAITING = "waiting.json"
"""Name of the file with the candidates that wait for an answer; there while they do."""


class Request(BaseModel):
    """One request.

    Attributes:
        id: sorts by the time of writing.
        action: what is asked.
        candidate: id of the candidate; empty for ``add``.
        components: texts of what to add; of ``approve`` and ``refuse``, once taken up, the texts
            of the candidate that was meant.
        override: whether to add it over the firewall's refusal.
        by: who asked; ``"timeout"`` where nobody did.
        step: engine step at which it was taken up; None until then.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    action: Action
    candidate: str = ""
    components: dict[str, str] = {}
    override: bool = False
    by: str = "a person"
    step: int | None = None


class Waiting(BaseModel):
    """A candidate that waits for an answer.

    Attributes:
        id: of the candidate.
        components: its texts.
        mean: verified reward; None if nothing was scored.
        rationale: why it was written.
    """

    id: str
    components: dict[str, str]
    mean: float | None = None
    rationale: str = ""


_WAITING = TypeAdapter(list[Waiting])
_IDS = TypeAdapter(list[str])


class RequestFolder:
    """The requests to one training.

    Args:
        log: the event log; None for one in memory, to which nothing can be asked.
    """

    def __init__(self, log: Path | None) -> None:
        self.root = None if log is None else log.parent / FOLDER
        self._taken: list[str] = []
        self._announced = ""

    def ask(
        self,
        action: Action,
        candidate: str = "",
        components: dict[str, str] | None = None,
        *,
        override: bool = False,
        by: str = "a person",
        step: int | None = None,
    ) -> Request:
        """Writes a request for the engine to take up at its next step, and returns it.

        Args:
            action: what is asked.
            candidate: id of the candidate; for all but ``add``.
            components: texts of what to add.
            override: whether to add it over the firewall's refusal.
            by: who asks.
            step: at which it was taken up, if it was.
        """
        root = self._existing()
        identity = f"{time.time_ns():020}-{uuid.uuid4().hex[:8]}"
        request = Request(
            id=identity,
            action=action,
            candidate=candidate,
            components=components or {},
            override=override,
            by=by,
            step=step,
        )
        write_whole(root / f"{identity}.json", request.model_dump_json(indent=2))
        return request

    def due(self, step: int, *actions: Action) -> list[Request]:
        """The requests for ``actions`` to take up at engine step ``step``, oldest first."""
        return [
            one
            for one in self.everything()
            if one.action in actions
            and one.id not in self._taken
            and (one.step is None or one.step <= step)
        ]

    def take(self, request: Request, step: int, components: dict[str, str] | None = None) -> None:
        """Notes that ``request`` was taken up at ``step``, for good."""
        self._taken.append(request.id)
        if request.step is None:
            found = {"step": step} | ({"components": components} if components else {})
            written = request.model_copy(update=found).model_dump_json(indent=2)
            write_whole(self._existing() / f"{request.id}.json", written)

    def everything(self) -> list[Request]:
        """All requests, oldest first.

        Raises:
            InputError: a file in the folder is no request.
        """
        if self.root is None or not self.root.is_dir():
            return []
        files = sorted(file for file in self.root.glob("[0-9]*.json"))
        return [_read(file) for file in files]

    def announce(self, waiting: Sequence[Waiting]) -> None:
        """Says in a file who waits; removes it where nobody does."""
        file = self._existing() / WAITING
        text = _WAITING.dump_json(list(waiting), indent=2).decode() if waiting else ""
        if not waiting:
            file.unlink(missing_ok=True)
        elif text != self._announced:  # who reads it sees by its time whether there is news
            write_whole(file, text)
        self._announced = text

    def waiting(self) -> list[Waiting]:
        """Who waits for an answer now.

        Raises:
            InputError: the file that says so is damaged.
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
                f"{file} does not say who waits ({error.error_count()} errors); required: a file "
                "that a waiting training wrote; remove it"
            ) from error

    def files(self) -> list[Path]:
        """Everything that lies here to be read."""
        if self.root is None:
            return []
        return sorted([*self.root.glob("[0-9]*.json"), *self.root.glob(WAITING)])

    def state_dict(self) -> dict[str, JsonValue]:
        """Which requests were taken up."""
        return {"taken": list(self._taken)}

    def load_state_dict(self, state: dict[str, JsonValue]) -> None:
        """Continues from ``state``."""
        self._taken = _IDS.validate_python(state["taken"])

    def _existing(self) -> Path:
        if self.root is None:
            raise InputError(
                "the events of this engine are kept in memory, so that nobody can ask anything of "
                "it; required: attach(..., log_dir=DIR), or log=EventLog(PATH)"
            )
        return self.root


def matches(request: Request, candidate: Candidate) -> bool:
    """Whether ``request`` is about ``candidate``, and not another that had its id before."""
    named = request.candidate == candidate.id
    return named and (not request.components or request.components == dict(candidate.components))


def _read(file: Path) -> Request:
    try:
        return Request.model_validate_json(file.read_bytes())
    except (OSError, ValidationError) as error:
        raise InputError(
            f"{file} is no request ({type(error).__name__}); required: one written by evoprompt "
            "pool; delete it"
        ) from error
