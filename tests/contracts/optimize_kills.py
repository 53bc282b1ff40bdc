"""An ``evoprompt.optimize`` that may be killed anywhere, in the middle of a line too, and goes on.

The program is a coroutine, several calls are under way at a time and end in any order, and a text
consists of two components. The proposer keeps a state, learns from feedback, and often
forgets what its parent knew.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults import WORK
from optimizing import HABITS

import evoprompt
from evoprompt import OptimizeOptions, Proposal, ProposalRequest, Proposer, VerificationResult
from evoprompt.log.evaluation import Score
from evoprompt.support.storage import LineFile

SETTINGS = "settings.json"
"""File in a job's directory: the fields of :class:`Job` that differ."""

CALLS = "calls.txt"
"""File in a job's directory with a line for each call of the program and each of the proposer."""

KINDS = len(HABITS)
TRAIN = [f"train question {n} about kind {n % KINDS}" for n in range(16)]
VALIDATION = [f"another question {n} about kind {n % KINDS}" for n in range(8)]
SEED = {"even": "You see the even kinds.", "odd": "You see the odd kinds."}


@dataclass(frozen=True)
class Job:
    """What a job does, and where it dies.

    Attributes:
        seeds: optimizations.
        cut_at: number of the line of any file in whose middle the process dies, from 0.
        call_at: number of the call of the program at which it does.
    """

    seeds: int = 1
    cut_at: int | None = None
    call_at: int | None = None


@dataclass
class Teacher(Proposer):
    """Adds the habit that a failure asks for; at times it begins anew, or writes nonsense."""

    calls: Path
    moods: int = 0
    refused: int = 0
    words: list[str] = field(default_factory=list)

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        note(self.calls, f"proposer {request.step}")
        self.moods += 1
        name = request.component
        parent = request.parents[0].candidate
        wanted = request.rng.choice(request.failures).feedback
        if self.moods % 3 == 2:
            wanted = f"Remember the number {self.refused} of {request.step} at all times."
        base = SEED[name] if self.moods % 2 == 0 else parent.components[name]
        self.words.append(wanted)
        return [Proposal({**parent.components, name: f"{base} {wanted}"}, (parent.id,))]

    def feedback(self, results: Sequence[VerificationResult]) -> None:
        self.refused += sum(not one.is_admitted for one in results)

    def state_dict(self) -> dict[str, Any]:
        return {"moods": self.moods, "refused": self.refused, "words": list(self.words)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.moods, self.refused = state["moods"], state["refused"]
        self.words = list(state["words"])


def note(path: Path, line: str) -> None:
    """Adds a line that no kill can take away."""
    with path.open("ab", buffering=0) as file:
        file.write(f"{line}\n".encode())


def main(directory: Path) -> None:
    """Begins, or goes on, and leaves ``result.json``: the files, those of journals in any order."""
    job = Job(**json.loads((directory / SETTINGS).read_text()))
    calls, made = directory / CALLS, 0
    root = directory / WORK / "run"
    if job.cut_at is not None:
        cut_lines(root, job.cut_at)

    async def program(texts: Mapping[str, str], example: str) -> str:
        nonlocal made
        made += 1
        number = made
        if number - 1 == job.call_at:
            os.kill(os.getpid(), signal.SIGKILL)
        note(calls, f"program {texts['even']} | {texts['odd']} | {example}")
        await asyncio.sleep((number * 7 % 5) / 4000)
        kind = int(example[-1])
        right = HABITS[kind] in texts["even" if kind % 2 == 0 else "odd"]
        return "right" if right else HABITS[kind]

    async def metric(example: str, output: str) -> Score:
        return Score(float(output == "right"), "" if output == "right" else output)

    begun = (root / "settings.yaml").is_file()
    found = evoprompt.optimize(
        SEED,
        TRAIN,
        metric,
        program=program,
        valset=VALIDATION,
        proposer=Teacher(calls),
        budget=600,
        directory=root,
        options=OptimizeOptions(
            seed=1, seeds=job.seeds, max_concurrency=4, progress=False, resume=begun
        ),
    )
    files = sorted(root.rglob("*"))
    kept = ("events.jsonl", "result.json", "best_instruction.txt", "settings.yaml")
    result = {
        "files": [str(one.relative_to(root)) for one in files],
        "text": {str(one.relative_to(root)): one.read_text() for one in files if one.name in kept},
        "journal": {
            str(one.relative_to(root)): sorted(one.read_text().splitlines())
            for one in files
            if one.name == "journal.jsonl"
        },
        "value": found.value,
    }
    (directory / "result.json").write_text(json.dumps(result))


def cut_lines(root: Path, at: int) -> None:
    """Dies in the middle of the line with this number that is appended under ``root``."""
    whole, written = LineFile.append, 0

    def append(self: LineFile, line: bytes) -> None:
        nonlocal written
        if written == at:
            whole(self, line[: len(line) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        written += 1
        whole(self, line)

    LineFile.append = append  # type: ignore[method-assign]
