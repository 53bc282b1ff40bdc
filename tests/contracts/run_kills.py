"""A whole ``evoprompt run`` of the fake task that may be killed anywhere and is then resumed."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import MagicMock

from faults import WORK

from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.directory import RunDirectory
from evoprompt.experiments.runner import run

ENGINE = {
    "proposer": "fake",
    "population_size": 4,
    "prune_every": 1,
    "evolve_every": 2,
    "verify_questions": 4,
}
UNTIMED = ("train_seconds",)


def main(directory: Path) -> None:
    """Runs what is not finished, and leaves ``result.json``."""
    settings = json.loads((directory / "settings.json").read_text())
    config = RunConfig.model_validate(
        {
            "task": "fake",
            "host": {"name": "fake", "save_every": 2},
            "engine": ENGINE,
            "arms": {"coevolve": {}},
            "budget": 320,
            "evaluate_every": 160,
            **settings,
        }
    )
    root = directory / WORK / "run"
    resumes = (root / "config.yaml").exists()
    files = RunDirectory.resumed(root, config) if resumes else RunDirectory.new(root, config)
    watcher = MagicMock()
    outcome = run(files, watcher)
    if outcome.failed:
        raise SystemExit(str(watcher.failed.call_args))
    summary = json.loads(files.summary.read_text())
    for arm in summary["arms"].values():
        for seed in arm["seeds"]:
            for name in UNTIMED:
                seed.pop(name)
    events = [files.trial(trial).events.read_text() for trial in files.trials()]
    result = {"events": events, "best": files.best.read_text(), "found": summary}
    (directory / "result.json").write_text(json.dumps(result))
