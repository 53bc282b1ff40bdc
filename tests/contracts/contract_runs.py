"""What a contract asks a host to do, and what the host tells of it."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import evoprompt
from evoprompt import Verifier
from evoprompt.lm import LanguageModel, LmCall, LmError, LmSettings, ProgramOutput
from evoprompt.log.eventlog import EventLog
from evoprompt.proposers.background import Background
from evoprompt.proposers.language import CANDIDATES
from evoprompt.proposers.reflection import Reflection
from evoprompt.roles import ProposalRequest, Proposer, VerificationRequest
from evoprompt.support.storage import STATE_FILE
from evoprompt.types import ADMITTED, REJECTED, Proposal, StepReport, Trajectory, Verification
from evoprompt.verifiers import ReplayTopN, measured, verification_of

WORDS = ("search", "think", "guess", "look", "answer", "slow", "fast", "twice", "never", "always")


class RandomWords(Proposer):
    """Proposes the parent with two words more; deterministic from the engine's generator."""

    def propose(self, request: ProposalRequest) -> list[Proposal]:
        """One proposal a place."""
        parent = request.parents[0].candidate
        return [
            Proposal.of(f"{parent.text} {' '.join(request.rng.sample(WORDS, 2))}", parent)
            for _ in range(request.count)
        ]


class Broken(Proposer):
    """A proposer that never answers."""

    def propose(self, request: ProposalRequest) -> list[Proposal]:
        """Fails."""
        raise ConnectionError("nobody answers")


class Noting(LanguageModel):
    """Writes down what it is asked, a line of fields a call, and answers the same each time."""

    def __init__(self, notes: Path) -> None:
        super().__init__(LmSettings(model="noting"), connection=str)
        self.notes = notes

    def ask(self, calls: Sequence[LmCall]) -> list[ProgramOutput | LmError]:
        """Two texts to every call."""
        with self.notes.open("a", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(dict(call.inputs))}\n" for call in calls)
        return [ProgramOutput({CANDIDATES: ["look it up first", "be slow"]}) for _ in calls]

    def check(self, probe: bool = False) -> None:
        """It can be asked."""


class AdmitsNobody(Verifier):
    """Rolls everybody out and lets nobody in: verification and nothing else."""

    def verify(self, request: VerificationRequest) -> Verification:
        """The results of three questions, all of them refusals."""
        found = ReplayTopN(3, "top").verify(request)
        refused = [replace(result, decision=REJECTED) for result in found.results]
        return replace(found, results=tuple(refused))


class VerifierInBatches(Verifier):
    """Verifier that asks for one batch per question, with several rollouts of the parent.

    It admits all proposals. An error of a rollout function in any batch ends the verification.

    Args:
        questions: the questions of a round.
        parent_rollouts: the rollouts of the first parent on each question.
    """

    def __init__(self, questions: int, parent_rollouts: int = 1) -> None:
        self.questions = questions
        self.parent_rollouts = parent_rollouts

    def most_rollouts(self, proposed: int, parents: int) -> int:
        """Return the rollouts of a round."""
        return self.questions * (proposed + self.parent_rollouts)

    def verify(self, request: VerificationRequest) -> Verification:
        """Return one result per proposal, and all rollouts of all batches."""
        assert request.rollout is not None
        parent = request.parents[0].candidate
        trajectories: list[Trajectory] = []
        questions = request.replay.questions(self.questions, request.rng)
        for index, question in enumerate(questions):
            trajectories += request.rollout(
                [
                    verification_of(parent, question, index, self.parent_rollouts),
                    *(verification_of(child, question, index) for child in request.proposed),
                ]
            )
        results = [measured(child, trajectories) for child in request.proposed]
        admitted = [
            replace(result, decision=ADMITTED)
            if number < request.slots and result.mean is not None
            else result
            for number, result in enumerate(results)
        ]
        return Verification(tuple(admitted), (measured(parent, trajectories),), tuple(trajectories))


@dataclass(frozen=True)
class EngineSpec:
    """An engine that can be built in any process.

    Attributes:
        seeds: the first instructions.
        evolves: whether it has a proposer.
        answers: whether its proposer ever answers.
        admits: whether its verifier lets anybody in.
        settings: fields of its configuration.
        notes: file of what a language model is asked, which then writes; None for words at random.
    """

    seeds: tuple[str, ...] = ("be brief", "think then answer")
    evolves: bool = True
    answers: bool = True
    admits: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: Path | None = None

    def build(self, log: EventLog | None = None) -> evoprompt.Engine:
        """The engine."""
        proposer: Proposer = RandomWords() if self.answers else Broken()
        if self.notes is not None:
            proposer = Background(Reflection(Noting(self.notes)))
        return evoprompt.Engine(
            self.seeds,
            proposer=proposer if self.evolves else None,
            verifier=None if self.admits else AdmitsNobody(),
            config=evoprompt.EngineConfig(**self.settings),
            seed=11,
            log=log,
        )


STATIC = EngineSpec(seeds=("be brief",), evolves=False)
BRIEF = EngineSpec(("Be brief.",), evolves=False)
EVOLVING = EngineSpec(
    settings={
        "population_size": 4,
        "candidates_per_question": 1,
        "prune_every": 2,
        "evolve_every": 2,
        "verify_questions": 3,
        "accept": "top",
        "failure_below": 2.0,  # every trajectory is one, so that all of them are remembered
    }
)
SIDE_BY_SIDE = replace(EVOLVING, settings={**EVOLVING.settings, "candidates_per_question": 2})
ONE_BASELINE = replace(EVOLVING, settings={**EVOLVING.settings, "candidates_per_question": "auto"})
FAILING = replace(EVOLVING, answers=False)
ADMITS_NOBODY = replace(EVOLVING, seeds=STATIC.seeds, admits=False)


@dataclass(frozen=True)
class Job:
    """What a host is asked to do.

    Attributes:
        engine: the engine to attach; None trains without evoprompt, the instruction ``STATIC``
            starts from being part of the data.
        steps: generation batches to train on.
        processes: over how many the batch is split; with 2, a group must straddle them.
        save_every: generation batches between two checkpoints.
        resume: continue from the newest checkpoint in the same directory.
        kill_in: dies by SIGKILL in the middle of this generation batch, counted from 1.
        silent: ids of questions that no reward function scores.
        ruin_in: the policy's weights are ruined just before this generation batch.
        evaluate_every: generation batches between two evaluations by the host.
    """

    engine: EngineSpec | None = None
    steps: int = 4
    processes: int = 1
    save_every: int | None = None
    resume: bool = False
    kill_in: int | None = None
    silent: tuple[str, ...] = ()
    ruin_in: int | None = None
    evaluate_every: int | None = None


@dataclass(frozen=True)
class Row:
    """One rollout as the host itself saw it, however the adapter sees it.

    Attributes:
        question: its question's id.
        instruction: the instruction in the prompt the policy was given.
        reward: what the host trained on; None if nothing was scored.
        advantage: what the host made of it.
    """

    question: str
    instruction: str
    reward: float | None
    advantage: float


@dataclass(frozen=True)
class Run:
    """What came of a job.

    Attributes:
        losses: one an optimizer step.
        weights: digest of the policy's parameters at the end.
        generators: digest of the random generators at the end.
        batches: the rows of each generation batch over all processes, in the host's order.
        told: what the engine was told, one list a generation batch.
        events: the engine's events.
        reported: what the host's own reporter wrote to its file, by name.
        evaluated: for each row the host evaluated, the instruction in its prompt and what
            ``engine.best`` was at that moment.
        engines_used: over all processes, how many engines were asked or told anything.
        populations: what lives at the end in the engine of each process, where there are several.
    """

    losses: Sequence[float]
    weights: str
    generators: str
    batches: Sequence[Sequence[Row]]
    told: Sequence[Sequence[Trajectory]]
    events: Sequence[Mapping[str, Any]]
    reported: Mapping[str, Sequence[float]]
    evaluated: Sequence[tuple[str, str]]
    engines_used: int
    populations: Sequence[Sequence[str]] = ()


class ContractHost(ABC):
    """A tiny real trainer. Its questions are ``q0``, ``q1``, ..., asked in this order."""

    group: int
    """Rollouts a question (G)."""

    @abstractmethod
    def run(self, job: Job, directory: Path) -> Run | None:
        """Does the job in ``directory``; None if it was killed."""

    @abstractmethod
    def trainer(self, directory: Path) -> object:
        """A constructed trainer that nothing is attached to."""

    @abstractmethod
    def fingerprint(self, trainer: object) -> object:
        """Equal for two trainers, or one at two times, if they will behave alike."""

    def forget_engine(self, directory: Path) -> None:
        """Removes the engine's state from every checkpoint, as if none had been attached."""
        for file in directory.rglob(STATE_FILE):
            file.unlink()


def note_tells(
    engine: evoprompt.Engine, named: Callable[[Trajectory], Trajectory] = lambda told: told
) -> list[list[Trajectory]]:
    """From now on holds what ``engine`` is told, one list a call; ``named`` renames questions."""
    told: list[list[Trajectory]] = []
    tell = engine.tell

    def noting(trajectories: Sequence[Trajectory]) -> StepReport:
        told.append([named(_plainly_named(trajectory)) for trajectory in trajectories])
        return tell(trajectories)

    engine.tell = noting  # type: ignore[method-assign]
    return told


def _plainly_named(trajectory: Trajectory) -> Trajectory:
    """Return the record with the id that the row names, without the digest of what is asked."""
    question = trajectory.question
    plain = replace(question, id=re.sub("-[0-9a-f]{8}$", "", question.id))
    return replace(trajectory, assignment=replace(trajectory.assignment, question=plain))


def groups(batch: Sequence[Row], size: int) -> list[Sequence[Row]]:
    """The rows of one batch, a group at a time."""
    return [batch[start : start + size] for start in range(0, len(batch), size)]


def proposed(run: Run) -> set[str]:
    """Instructions that a proposer wrote and screening let through."""
    return {
        " ".join(event["components"].values())
        for event in run.events
        if event["event"] == "proposed" and event["candidate"]
    }
