"""The description of the tool evolves beside the instruction, through the real trainer."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from evoprompt_calculator.task import Calculator, CalculatorSettings
from optimizing import Writes
from pydantic import JsonValue

from evoprompt import Engine, EngineConfig, attach
from evoprompt.agents import EpisodeSteps, Sample
from evoprompt.agents.tasks import Trial
from evoprompt.experiments.hosts.trl.job import TrlTrainingJob
from evoprompt.experiments.trial_parts import host_for
from evoprompt.hosting.prompts import Prompt
from evoprompt.support.errors import AttachError

FIRST, LATER = "Value of an arithmetic expression.", "Works out one expression with numbers."
TOOL = "tool:calculate"


class Described(Calculator):
    """Lets the description of its tool evolve."""

    evolving_tools = ("calculate",)


def job_of(task: Calculator, folder: Path, budget: int = 48) -> TrlTrainingJob:
    section: dict[str, JsonValue] = {
        "name": "trl",
        "questions_per_step": 2,
        "rollouts_per_question": 4,
    }
    found = host_for(task, section).prepare(task, Trial(0, folder, budget, budget))
    assert isinstance(found, TrlTrainingJob)
    return found


@pytest.fixture
def task() -> Described:
    return Described(CalculatorSettings(train=16, validation=4, test=4))


def test_what_evolved_is_what_the_policy_reads(
    task: Described, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(task, tmp_path)
    engine = Engine(
        task.seeds,
        proposer=Writes(lambda request: {TOOL: LATER}),
        seed=0,
        config=EngineConfig(
            population_size=2, evolve_every=2, verify_questions=2, prune_every=50, accept="top"
        ),
    )
    read: list[str] = []
    usual = job._runner.play

    def play(prompt: Prompt) -> EpisodeSteps:
        wanted = next(usual(prompt))
        assert isinstance(wanted, Sample)
        read.append(str(job._tokenizer.decode(wanted.episode.prompt_ids)))
        return usual(prompt)

    monkeypatch.setattr(job._runner, "play", play)
    attach(job.trainer, engine, render=job.render)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        job.train(engine, lambda evaluation: None)
    assert {member.components[TOOL] for member in engine.population.members} == {FIRST, LATER}
    shown = {text for text in (FIRST, LATER) for prompt in read if text in prompt}
    assert shown == {FIRST, LATER}
    for prompt in read:
        assert task.seed_instructions[0] in prompt
        assert (FIRST in prompt) != (LATER in prompt)
        assert prompt.count("calculate(") == 1


def test_a_trainer_that_cannot_show_it_is_refused(task: Described, tmp_path: Path) -> None:
    job = job_of(task, tmp_path)
    engine = Engine(task.seeds)
    with pytest.raises(AttachError, match="descriptions of the tools calculate are to evolve"):
        attach(job.trainer, engine)
