"""A training that has finished and is started again trains nothing and keeps what it had."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tiny_trl
from contract_runs import EVOLVING
from datasets import Dataset
from trl_host import digest

import evoprompt
from evoprompt.log.eventlog import EventLog
from evoprompt.support.errors import EvopromptWarning

# The random policy of these trainings sometimes says nothing, which has tests of its own.
pytestmark = pytest.mark.filterwarnings("ignore:of the rollouts of the verification")

FINISHED = r"the training had finished at step \d of \d, so nothing is trained"


def train(directory: Path, resume: bool, streamed: bool = False, **settings: Any) -> dict[str, Any]:
    """Trains once; returns everything that a second start must not change."""
    trainer = tiny_trl.trainer(
        directory / "checkpoints",
        rows=tiny_trl.questions(4),  # two steps an epoch
        evaluate_on=tiny_trl.questions(2) if "eval_strategy" in settings else None,
        **{
            "max_steps": 3,
            "save_strategy": "steps",
            "save_steps": 3,
            "shuffle_dataset": False,
            **settings,
        },
    )
    if streamed:
        trainer.train_dataset = Dataset.from_list(tiny_trl.questions(4)).to_iterable_dataset()
    log = EventLog(directory / "events.jsonl")
    engine = EVOLVING.build(log)
    attachment = evoprompt.attach(trainer, engine)
    trainer.train(resume_from_checkpoint=resume or None)
    attachment.detach()
    return {
        "weights": digest(*trainer.model.state_dict().values()),
        "step": trainer.state.global_step,
        "best": engine.best.text,
        "rollouts": engine.rollouts,
        "events": [json.dumps(event) for event in log],
        "losses": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry],
        "checkpoints": sorted(folder.name for folder in (directory / "checkpoints").iterdir()),
    }


@pytest.mark.parametrize(
    "settings",
    [
        {"max_steps": 1, "save_steps": 1},
        {"max_steps": 4, "save_steps": 2},
        {},
        {"max_steps": -1, "num_train_epochs": 2, "save_strategy": "epoch"},
        {"save_strategy": "epoch", "eval_strategy": "epoch"},
        {"streamed": True},
        {"eval_strategy": "steps", "eval_steps": 1, "eval_on_start": True},
        {"eval_strategy": "steps", "eval_steps": 3, "load_best_model_at_end": True},
    ],
    ids=[
        *("part", "epochs", "epoch-and-part", "by-epochs", "saves-by-epoch", "streamed"),
        *("evaluates-first", "loads-best"),
    ],
)
def test_a_second_start_changes_nothing(settings: dict[str, Any], tmp_path: Path) -> None:
    if settings.get("streamed"):
        settings |= {"accelerator_config": {"dispatch_batches": False}}
    first = train(tmp_path, resume=False, **settings)
    with pytest.warns(EvopromptWarning, match=FINISHED):
        assert train(tmp_path, resume=True, **settings) == first


def test_more_steps_go_on(tmp_path: Path) -> None:
    train(tmp_path, resume=False)
    more = train(tmp_path, resume=True, max_steps=5)
    assert more["step"] == 5
    whole = train(tmp_path / "whole", resume=False, max_steps=5)
    assert (more["weights"], more["best"]) == (whole["weights"], whole["best"])
