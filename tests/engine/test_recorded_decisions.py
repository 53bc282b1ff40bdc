"""Decisions of whole runs stay what they were: recordings that outlive restructuring.

The default is recorded with five candidates of a question and with one, ``inspo`` with one.

Rewards come from a seeded world, texts from a proposer that looks at its request; all else is the
engine. After a change that was meant, write the recording anew and say in the commit what changed:

    python tests/engine/test_recorded_decisions.py
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.types import Assignment, Proposal, Question, Trajectory

RECORDING = Path(__file__).parent / "recorded_decisions.json"
SIZES = {"16x5": (16, 160), "64x5": (64, 80), "512x5": (512, 31)}
SETTINGS: dict[str, dict[str, Any]] = {
    "inspo": {"preset": "inspo"},
    "default": {"candidates_per_question": 5},
    "default, one candidate a question": {"candidates_per_question": 1},
}
RUNS = [
    ("inspo", "16x5", 0),
    ("inspo", "16x5", 1),
    ("inspo", "512x5", 5),
    ("default", "16x5", 3),
    ("default", "64x5", 3),
    ("default, one candidate a question", "64x5", 3),
]
VERDICTS = {True: "admitted", False: "rejected"}
ADVICE = ("Add the tens first.", "Count twice.", "Say what you know.", "Draw a line.", "Be brief.")


class Writer(Proposer):
    """Makes a parent better or worse; the advice follows from the failures that it is shown."""

    def __init__(self) -> None:
        self.written = 0

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """One for each that is asked for, parents in turn."""
        read = sum(int(one.question.id[1:]) for one in request.failures)
        found = []
        for number in range(request.count):
            parent = request.parents[number % len(request.parents)].candidate
            effect = effect_of(parent.text) + request.rng.gauss(-0.05, 0.4)
            self.written += 1
            found.append(Proposal({"instruction": instruction(self.written, effect, read)}))
        return found


def instruction(number: int, effect: float, read: int) -> str:
    """A text that says what it is worth, in logits."""
    return f"{ADVICE[read % len(ADVICE)]} Plan {number} is worth {effect:+.6f} at the table."


def effect_of(text: str) -> float:
    """What :func:`instruction` wrote."""
    return float(text.split(" is worth ")[1].split()[0])


class World:
    """Questions of different difficulty; the policy learns; rewards are 0 or 1."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.calls = 0
        self.difficulty = np.random.default_rng([seed, 0]).normal(-1.2, 2.0, 4096)

    def batch(self, step: int, size: int) -> list[Question]:
        """The questions of a step; some come again at a later one."""
        rng = np.random.default_rng([self.seed, 1, step])
        drawn = rng.choice(len(self.difficulty), size, replace=False)
        return [Question(f"q{number}", f"What is {number} plus 1?") for number in drawn]

    def rollout(self, assignments: Sequence[Assignment], /) -> list[Trajectory]:
        """Rolls the policy out."""
        self.calls += 1
        rng = np.random.default_rng([self.seed, 2, self.calls])
        told = []
        for one in assignments:
            ease = self.difficulty[int(one.question.id[1:])] + effect_of(one.candidate.text)
            chance = 1 / (1 + math.exp(-(ease + 0.01 * self.calls)))
            rewards = (rng.random(one.rollouts) < chance).tolist()
            told += [Trajectory(one, float(r), number) for number, r in enumerate(rewards)]
        return told


def decisions(settings: str, size: str, seed: int) -> dict[str, Any]:
    """What the engine decided in one run."""
    questions, steps = SIZES[size]
    world = World(seed)
    engine = Engine(
        [instruction(0, 0.0, 0)],
        config=EngineConfig(**SETTINGS[settings]),
        proposer=Writer(),
        seed=seed,
    )
    drawn = []
    for step in range(1, steps + 1):
        engine.evolve(world.rollout)
        each = 5 // engine.selection.candidates_per_question
        assignments = engine.ask(world.batch(step, questions), each)
        drawn.append(digest(one.candidate.id for one in assignments)[:6])
        engine.tell(world.rollout(assignments))
    engine.evolve(world.rollout)
    events = list(engine.log)
    proposed = [event for event in events if event["event"] == "proposed"]
    assert not any(event["rule"] for event in proposed)
    return {
        "draws": " ".join(drawn),
        "pruned": [listed(event, "candidates") for event in events if event["event"] == "pruned"],
        "proposals": digest(
            " ".join([event["candidate"], *event["parents"], *event["components"].values()])
            for event in proposed
        ),
        "admitted": [listed(event, "admitted") for event in events if event["event"] == "evolved"],
        "verdicts": [
            f"{event['step']}: {event['candidate']} {VERDICTS[event['admitted']]}"
            for event in events
            if event["event"] == "verified" and not event["parent"]
        ],
        "members": " ".join(candidate.id for candidate in engine.population.members),
        "incumbents": [
            listed(event, "candidate") for event in events if event["event"] == "incumbent_changed"
        ],
        "final incumbent": engine.best.id,
        "rollouts": engine.rollouts,
    }


def listed(event: Mapping[str, Any], name: str) -> str:
    """The step of an event, and the candidates that it names."""
    named = event[name]
    return " ".join([f"{event['step']}:", *([named] if isinstance(named, str) else named)])


def digest(parts: Iterable[str]) -> str:
    """Of strings in their order."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


@pytest.mark.parametrize(("settings", "size", "seed"), RUNS)
def test_decisions_are_the_recorded_ones(settings: str, size: str, seed: int) -> None:
    recorded = json.loads(RECORDING.read_text(encoding="utf-8"))[f"{settings} {size} seed {seed}"]
    found = json.loads(json.dumps(decisions(settings, size, seed)))
    for name, value in recorded.items():
        assert found[name] == value, name
    assert list(found) == list(recorded)


if __name__ == "__main__":
    runs = [
        (" ".join([name, size, f"seed {seed}"]), decisions(name, size, seed))
        for name, size, seed in RUNS
    ]
    RECORDING.write_text(json.dumps(dict(runs), indent=1) + "\n", encoding="utf-8")
