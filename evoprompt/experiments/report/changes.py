"""What a person asks of the runs on a live page: who may, and what can be asked."""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from evoprompt.errors import InputError
from evoprompt.experiments.population import Trained
from evoprompt.experiments.report.source import logs_of
from evoprompt.requests import Action, Request
from evoprompt.types import INSTRUCTION
from evoprompt.validation import explain

_BY = "a person on the page"


class Wish(BaseModel):
    """What a page sends.

    Attributes:
        arm: of the trial, as the page names it.
        seed: of the trial.
        action: what is asked.
        candidate: id of the candidate; empty for ``add``.
        components: texts of what to add; of a candidate, those that the page shows, so that
            nothing happens to another that has got its id since.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    arm: str
    seed: int
    action: Action
    candidate: str
    components: dict[str, str]


class Changes:
    """Hands what is asked on a page to the trainings it shows.

    Args:
        paths: of the runs, as the page has them.

    Attributes:
        token: whoever knows it may ask; made anew for each object, and written nowhere.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.token = secrets.token_urlsafe(32)
        self._paths = tuple(paths)
        self._lock = threading.Lock()

    def admits(self, authorization: str) -> bool:
        """Whether a header of this value proves who sends it; takes the same time for any."""
        wanted = f"Bearer {self.token}".encode()
        return hmac.compare_digest(authorization.encode("utf-8", "replace"), wanted)

    def ask(self, body: bytes) -> Request:
        """Asks for the :class:`Wish` in ``body``, a JSON object, and returns the request.

        Raises:
            InputError: it is none, or cannot be done now.
        """
        try:
            wish = Wish.model_validate_json(body)
        except ValidationError as error:
            raise InputError(
                f"this is not asked as the page does: {explain(error, Wish)}"
            ) from error
        with self._lock:  # of two answers at the same time one is too late
            training = self._training(wish)
            training.require_unfinished()
            if wish.action == "add":
                _require_instruction(wish)
            else:
                training.require_candidate(wish.action, wish.candidate)
                _require_as_shown(wish, training)
            return training.requests.ask(wish.action, wish.candidate, wish.components, by=_BY)

    def _training(self, wish: Wish) -> Trained:
        logs = logs_of(*self._paths)
        log = logs.get((wish.arm, wish.seed))
        if log is None:
            known = ", ".join(f"{arm}, seed {seed}" for arm, seed in logs)
            raise InputError(
                f"no trial {wish.arm!r} with seed {wish.seed}; required: one of {known or 'none'}"
            )
        return Trained.of_log(log)


def _require_instruction(wish: Wish) -> None:
    if wish.candidate or set(wish.components) != {INSTRUCTION}:
        raise InputError("what is added has no id, and one text, the instruction")
    if not wish.components[INSTRUCTION].strip():
        raise InputError("the instruction is empty; required: some words")


def _require_as_shown(wish: Wish, training: Trained) -> None:
    if wish.action in ("approve", "refuse"):
        waiting = {one.id: one.components for one in training.requests.waiting()}
        texts = waiting.get(wish.candidate)
    else:
        texts = dict(training.history().candidate(wish.candidate).components)
    if texts != wish.components:
        raise InputError(
            f"{wish.candidate} is another text than the one that was shown, for the training was "
            "resumed from before; required: an answer to what it is now; look at the page again"
        )
