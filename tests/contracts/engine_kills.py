"""An engine without a trainer, saved after every step, that may be killed anywhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from contract_runs import EVOLVING
from faults import WORK

from evoprompt.log.eventlog import EventLog
from evoprompt.support.storage import load_state, save_state
from evoprompt.types import Assignment, Question, Trajectory, Turn

QUESTIONS = [Question(f"q{number}", f"Question {number}?") for number in range(6)]


def roll_out(assignments: Sequence[Assignment]) -> list[Trajectory]:
    """Rewards that depend on question, instruction and rollout, and on nothing else."""
    return [
        Trajectory(assignment, _reward(assignment, rollout), rollout, (Turn("an answer"),))
        for assignment in assignments
        for rollout in range(assignment.rollouts)
    ]


def _reward(assignment: Assignment, rollout: int) -> float:
    text = f"{assignment.question.id} {assignment.candidate.text} {rollout}"
    return blake2b(text.encode(), digest_size=1).digest()[0] / 255


def main(directory: Path) -> None:
    """Goes on from the saved state if there is one, and leaves ``result.json``."""
    steps = json.loads((directory / "settings.json").read_text()).get("steps", 6)
    work = directory / WORK
    state, events = work / "checkpoint.json", work / "events.jsonl"
    if not state.exists():
        events.unlink(missing_ok=True)
    log = EventLog(events)
    engine = EVOLVING.build(log)
    if state.exists():
        engine.load_state_dict(load_state(state))
    while engine.step < steps:
        engine.evolve(roll_out)
        engine.tell(roll_out(engine.ask(QUESTIONS, 2)))
        save_state(state, engine.state_dict())
    result = {"events": list(log), "state": engine.state_dict()}
    (directory / "result.json").write_text(json.dumps(result))
