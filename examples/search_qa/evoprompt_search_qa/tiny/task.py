"""The task as evoprompt sees it: questions, protocol, bank, diagnosis and trainers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, model_validator

from evoprompt.errors import InputError
from evoprompt.proposers.bank import SentenceBank
from evoprompt.tasks import Headline, Plan, Trainee, Trial
from evoprompt.types import Question, Trajectory
from evoprompt.validation import nearest
from evoprompt_search_qa import bank, protocol
from evoprompt_search_qa.diagnosis import diagnose
from evoprompt_search_qa.evaluation import HEADLINE
from evoprompt_search_qa.tiny.questions import make_splits
from evoprompt_search_qa.tiny.retriever import Retriever
from evoprompt_search_qa.tiny.world import MAX_SCALE, World

SHIPPED_POLICY = Path(__file__).parent / "weights"
"""The pretrained policy that comes with the package; see ``pretrain.py``."""

PRETRAINING_WORLDS = range(1000, 1040)
"""Worlds of the supervised stage; nothing else may use them."""

OFFLINE_HOSTS = ("prompted", "sft", "rejection")
"""Hosts without reinforcement learning; see ``training/``."""


class SearchQaSettings(BaseModel):
    """What can be chosen about the task.

    Attributes:
        world: seed of the knowledge base to train and test in.
        transfer_world: seed of a second one, with other facts, for the ``transfer`` split.
        train: training questions.
        validation: validation questions, for curves and for choosing settings.
        test: test questions, for results alone; as many again are asked for transfer.
        policy: folder of the pretrained policy; by default the one that is shipped.
        scale: how many times as many names as usual the worlds have; the policy must have been
            pretrained for it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    world: int = Field(default=7, ge=0)
    transfer_world: int = Field(default=8, ge=0)
    train: int = Field(default=600, ge=16)
    validation: int = Field(default=200, ge=10)
    test: int = Field(default=300, ge=10)
    policy: Path = SHIPPED_POLICY
    scale: int = Field(default=1, ge=1, le=MAX_SCALE)

    @model_validator(mode="after")
    def _check_worlds(self) -> SearchQaSettings:
        for name in ("world", "transfer_world"):
            if getattr(self, name) in PRETRAINING_WORLDS:
                raise InputError(
                    f"{name} is {getattr(self, name)}, where the policy was pretrained; required: "
                    f"none of {PRETRAINING_WORLDS.start} to {PRETRAINING_WORLDS.stop - 1}; "
                    "choose another seed"
                )
        if self.world == self.transfer_world:
            raise InputError(
                f"world and transfer_world are both {self.world}; required: two different worlds; "
                "change one"
            )
        return self


class SearchQa:
    """Multi-hop questions over a synthetic knowledge base, answered with a search tool.

    Args:
        settings: what was chosen.
    """

    def __init__(self, settings: SearchQaSettings | None = None) -> None:
        self.settings = settings or SearchQaSettings()

    @property
    def headline(self) -> Headline:
        """Exact match."""
        return HEADLINE

    @property
    def seed_instructions(self) -> Sequence[str]:
        """The one usual instruction, which asks for nothing special."""
        return [bank.compose(bank.SEED_IDEAS)]

    @property
    def required(self) -> Sequence[str]:
        """The tags that the policy has to be told of."""
        return [protocol.SEARCH, protocol.END_SEARCH, protocol.ANSWER, protocol.END_ANSWER]

    @property
    def bank(self) -> SentenceBank:
        """The sentences for proposers that work without an LLM."""
        return bank.sentence_bank()

    @cached_property
    def splits(self) -> dict[str, tuple[Question, ...]]:
        """The questions by split: train, validation, test and transfer.

        The first three are disjoint. Those of the transfer world are drawn anew: with the default
        sizes 134 of its 300 read like one of the other world, 66 of them like a training question.
        Their facts are others: 4 of the 134 have the same answer.
        """
        settings = self.settings
        sizes = (settings.train, settings.validation, settings.test)
        home = make_splits(World.random(settings.world, settings.scale), *sizes)
        abroad = make_splits(World.random(settings.transfer_world, settings.scale), *sizes)
        return {**home, "transfer": abroad["test"]}

    @cached_property
    def retriever(self) -> Retriever:
        """The search tool of the world that is trained in."""
        return Retriever(World.random(self.settings.world, self.settings.scale).passages)

    @cached_property
    def transfer_retriever(self) -> Retriever:
        """The search tool of the second world."""
        settings = self.settings
        return Retriever(World.random(settings.transfer_world, settings.scale).passages)

    def questions(self, split: str) -> tuple[Question, ...]:
        """The questions of ``split``.

        Raises:
            InputError: there is no such split.
        """
        if split not in self.splits:
            raise InputError(
                f"split is {split!r}; required: one of {', '.join(self.splits)}; choose one"
            )
        return self.splits[split]

    def tool(self, split: str) -> Retriever:
        """The search tool that goes with the questions of ``split``."""
        return self.transfer_retriever if split == "transfer" else self.retriever

    def diagnose(self, trajectory: Trajectory) -> Sequence[str]:
        """What went wrong in a failed trajectory; see ``diagnosis.py``."""
        return diagnose(trajectory)

    def plan(self, host: str, trial: Trial) -> Plan | None:
        """What a trial would do and need, told before anything is loaded.

        Raises:
            InputError: the host settings are wrong.
        """
        if host == "trl":
            from evoprompt_search_qa.tiny.plan import plan

            return plan(self, trial)
        return None

    def prepare(self, host: str, trial: Trial) -> Trainee:
        """The policy in the trainer of ``host``, ready to be trained.

        Raises:
            InputError: the task does not support the host, or the host settings are wrong.
        """
        if host == "trl":
            from evoprompt_search_qa.tiny.trl import TrlTrainee

            return TrlTrainee(self, trial)
        if host == "verl":
            from evoprompt_search_qa.verl.tiny import prepare

            return prepare(self, trial)
        if host in OFFLINE_HOSTS:
            from evoprompt_search_qa.training.hosts import HOSTS

            return HOSTS[host](self, trial)
        known = ("trl", "verl", *OFFLINE_HOSTS)
        raise InputError(
            f"host is {host!r}; required: one of {', '.join(known)}{nearest(host, known)}; "
            "change host.name"
        )
