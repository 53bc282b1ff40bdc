"""What the hosts without an online trainer share: one instruction, and nobody drives them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from evoprompt.agents.tasks import Evaluation, Trial
from evoprompt.attachment import AttachRequest
from evoprompt.engine import Engine
from evoprompt.errors import AttachError, InputError
from evoprompt.prompts import Render
from evoprompt.proposers.none import NoProposer
from evoprompt.types import Candidate, Written
from evoprompt_search_qa.methods.play import answer
from evoprompt_search_qa.methods.registry import METHODS
from evoprompt_search_qa.methods.tiny import TINY
from evoprompt_search_qa.policies import tiny
from evoprompt_search_qa.tiny.policy import load_policy, save_policy
from evoprompt_search_qa.tiny.task import SearchQa
from evoprompt_search_qa.training.settings import OfflineSettings


@dataclass(frozen=True, slots=True)
class Offline:
    """Stands where other hosts have a trainer object: the host calls the engine itself."""

    host: str


@dataclass(slots=True)
class OfflineAttachment:
    """An engine beside a host that calls it itself."""

    engine: Engine
    host: str

    prompts = None

    def detach(self) -> None:
        """Nothing: nothing was changed."""


def attach(request: AttachRequest) -> OfflineAttachment | None:
    """The binding to an :class:`Offline` host; None for any other trainer.

    Raises:
        AttachError: the instruction is to evolve, which needs an online trainer.
    """
    if not isinstance(request.trainer, Offline):
        return None
    if not isinstance(request.engine.proposer, NoProposer):
        raise AttachError(
            f"host {request.trainer.host!r} keeps one instruction, but the engine has a proposer; "
            "required: engine.proposer: null, or the host 'trl'"
        )
    return OfflineAttachment(request.engine, request.trainer.host)


class OfflineTrainee(ABC):
    """The policy of a trial, its tests and its files; the hosts add how it is trained.

    Args:
        host: its name.
        task: whose questions to use.
        trial: what to do.
        settings: of the host.
    """

    def __init__(self, host: str, task: SearchQa, trial: Trial, settings: OfflineSettings) -> None:
        self.trainer = Offline(host)
        self.task = task
        self.trial = trial
        self.stopping = False
        self._settings = settings
        torch.set_num_threads(settings.threads)
        self.policy, self.tokenizer = load_policy(trial.policy or task.settings.policy)

    @property
    def render(self) -> Render:
        """Places the instruction before the question."""
        return self.task.render

    @abstractmethod
    def train(self, engine: Engine, on_evaluation: Callable[[Evaluation], None]) -> None:
        """Does what the host does; see :class:`evoprompt.agents.tasks.Trainee`."""

    def save(self, folder: Path) -> None:
        """Writes weights and tokenizer as ``transformers`` loads them."""
        save_policy(self.policy, self.tokenizer, folder)

    def stop(self) -> None:
        """Asks a running ``train`` to return; a resumed trial begins anew."""
        self.stopping = True

    def evaluate(self, written: Written, split: str) -> Evaluation:
        """Greedy evaluation of the current policy by the method; draws no random number."""
        search = self.task.tool(split).search
        questions = self.task.questions(split)
        episodes = answer(
            METHODS[self._settings.method].play,
            questions,
            Candidate.of(written).instruction,
            TINY,
            tiny.wrap(self.policy, self.tokenizer),
            lambda queries: [search(query) for query in queries],
        )
        if failed := [episode.error for episode in episodes if episode.end == "failed"]:
            raise InputError(
                f"{len(failed)} of {len(episodes)} questions could not be asked; the first: "
                f"{failed[0]}"
            )
        return Evaluation.of([*map(self.task.score, episodes, questions)], self.task.headline)
