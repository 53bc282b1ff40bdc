"""``evoprompt.optimize`` as the tests call it, and a small world in which habits can be learned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import evoprompt
from evoprompt import OptimizeOptions, Proposal, ProposalRequest, Proposer
from evoprompt.log.evaluation import Score

HABITS = (
    "Convert every unit.",
    "Spell out each date.",
    "Check the sign twice.",
    "Name your source.",
)
SEED = "You answer questions."
TRAIN = [f"train question {n} about kind {n % 4}" for n in range(40)]
VALIDATION = [f"another question {n} about kind {n % 4}" for n in range(24)]


def split(given: dict[str, Any]) -> dict[str, Any]:
    """``given`` with the options in an object; ``resume`` is the folder to go on with."""
    if (option := given.pop("resume_option", None)) is not None:
        return given | {"options": split(given)["options"].model_copy(update={"resume": option})}
    if (folder := given.pop("resume", None)) is not None:
        given |= {"directory": folder, "resume": True}
    known = [name for name in given if name in OptimizeOptions.model_fields]
    return given | {"options": OptimizeOptions(**{name: given.pop(name) for name in known})}


def optimize(
    seed_instruction: Any, trainset: Sequence[Any], metric: Any = None, **given: Any
) -> evoprompt.OptimizationResult:
    """Improves ``seed_instruction`` with parameters and options in one call."""
    return evoprompt.optimize(seed_instruction, trainset, metric, **split(given))


class Writes(Proposer):
    """Proposes what a function makes of a request: texts of the parent's kind."""

    def __init__(self, *write: Callable[[ProposalRequest], Any]) -> None:
        (self._write,) = write

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        parent = request.parents[0].candidate
        written = self._write(request)
        if not isinstance(written, str):
            return [Proposal({**parent.components, **written}, (parent.id,))]
        return [Proposal.of(written, parent)] if written else []


def adding(sentence: str) -> Writes:
    """Adds ``sentence`` to what there is."""
    return Writes(lambda request: f"{request.parents[0].candidate.text} {sentence}")


class Teacher(Proposer):
    """Adds the habit that a failure asks for; every third time it writes nonsense."""

    def __init__(self) -> None:
        self.asked = 0

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        self.asked += 1
        parent = request.parents[0].candidate
        wanted = request.rng.choice(request.failures).feedback.removeprefix("wrong: ")
        if request.rng.random() < 0.3:
            wanted = f"Remember the number {request.rng.randrange(10_000)} at all times."
        return [Proposal.of(f"{parent.text} {wanted}", parent)]


def program(instruction: str, example: str) -> str:
    """Is right where the instruction has the habit that a kind of question needs."""
    habit = HABITS[int(example[-1])]
    return "right" if habit in instruction else f"wrong: {habit}"


def metric(example: str, output: str) -> Score:
    """One for what is right."""
    return Score(float(output == "right"), output)


def learn(program: Any = program, metric: Any = metric, **given: Any) -> Any:
    """Optimizes in the world of habits: in one thread, within 400 rollouts, quietly."""
    settings: dict[str, Any] = {
        "valset": VALIDATION,
        "proposer": Teacher(),
        "budget": 400,
        "max_concurrency": 1,
        "progress": False,
        **given,
    }
    seed, train = settings.pop("seed_instruction", SEED), settings.pop("trainset", TRAIN)
    return optimize(seed, train, metric, program=program, **settings)
