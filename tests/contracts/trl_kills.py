"""A training under the real TRL that may be killed anywhere and is then started again."""

from __future__ import annotations

import json
from pathlib import Path

import tiny_trl
from contract_runs import EVOLVING
from faults import WORK
from trl_host import digest, generators

import evoprompt
from evoprompt.log.eventlog import EventLog
from evoprompt.support.storage import STATE_FILE

STEPS = 5
SETTINGS = "settings.json"
"""File in a job's directory: arguments of ``GRPOConfig``."""


def main(directory: Path) -> None:
    """Trains, from the newest checkpoint if there is one, and leaves ``result.json``."""
    checkpoints, events = directory / WORK / "checkpoints", directory / WORK / "events.jsonl"
    resumes = any(checkpoints.glob(f"*/{STATE_FILE}"))
    if not resumes:
        events.unlink(missing_ok=True)
    trainer = tiny_trl.trainer(
        checkpoints,
        **{
            "max_steps": STEPS,
            "shuffle_dataset": False,
            "save_strategy": "steps",
            "save_steps": 2,
            "save_total_limit": 1,
            **json.loads((directory / SETTINGS).read_text()),
        },
    )
    log = EventLog(events)
    engine = EVOLVING.build(log)
    attachment = evoprompt.attach(trainer, engine)
    trainer.train(resume_from_checkpoint=resumes or None)
    attachment.detach()
    result = {
        "weights": digest(*trainer.model.state_dict().values()),
        "generators": generators(),
        "rollouts": engine.rollouts,
        "best": engine.best.text,
        "population": [candidate.text for candidate in engine.population.members],
        "events": list(log),
        "losses": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry],
        "step": trainer.state.global_step,
    }
    (directory / "result.json").write_text(json.dumps(result))
