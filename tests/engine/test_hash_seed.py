"""A run is a function of its seed, whatever order sets of strings happen to have."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

RUN = """
import json

from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.proposers.sentences import SentenceEdit
from evoprompt.testing import FakeTrainer, SampleTask, ScriptedPolicy
from evoprompt.testing.samples import question

task = SampleTask()
policy = ScriptedPolicy(lambda a: 1.0 if "check" in a.candidate.text.lower() else 0.0)
config = EngineConfig(prune_every=3, evolve_every=4, verify_questions=3)
engine = Engine(
    task.seed_instructions,
    config=config,
    required=task.required,
    proposer=SentenceEdit(task.bank, task.diagnose),
)
questions = [question(number) for number in range(6)]
FakeTrainer(policy, questions).train(engine, 13)
told = policy(engine.ask(questions, 40))
engine.tell([one for one in told if one.rollout % 8 == 0])  # ints that share a slot of a set
print(json.dumps([engine.state_dict(), list(engine.log)]))
"""


def output(hash_seed: str) -> str:
    """What RUN prints in a process of its own."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", RUN], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.slow
def test_neither_state_nor_events_depend_on_it() -> None:
    first, second = output("1"), output("4242")
    assert '"received": [' in first
    assert first == second
