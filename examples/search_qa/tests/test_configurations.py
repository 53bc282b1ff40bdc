"""Every shipped configuration for GPUs composes, and says here what it lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from evoprompt_search_qa import protocol
from evoprompt_search_qa.open.task import OpenQa

from evoprompt.agents import Sampling
from evoprompt.experiments.check import forecast_run
from evoprompt.experiments.config import RunConfig, load, with_host_defaults
from evoprompt.experiments.directory import RunDirectory, TrialDirectory, TrialId
from evoprompt.experiments.hosts.trl.arguments import arguments
from evoprompt.experiments.hosts.trl.component import TrlHost
from evoprompt.experiments.trial_parts import host_for, trial_of
from evoprompt.plugins import build
from evoprompt.support.errors import InputError
from evoprompt.support.yamlfile import read

FOLDER = Path(__file__).parents[1]
PAPER = ("qwen2.5-3b-trl.yaml", "qwen2.5-7b-trl.yaml")
VERL = ("qwen2.5-3b-verl.yaml", "qwen2.5-7b-verl.yaml")
DOCS = FOLDER.parents[1] / "docs"


def trl_arguments(config: RunConfig) -> tuple[Any, OpenQa]:
    """TRL's own configuration of the static arm."""
    task = build("task", config.task)
    assert isinstance(task, OpenQa)
    trial = trial_of(config, TrialId("static", 0), TrialDirectory(Path("here")))
    host = host_for(task, config.host_of("static"))
    assert isinstance(host, TrlHost)
    sampling = Sampling(task.limits.turn_tokens, protocol.SEARCHING.stop)
    return arguments(host.settings, host.settings.limits(task), sampling, trial), task


@pytest.mark.parametrize(("name", "rate", "turns"), [(PAPER[0], 5e-7, 4), (PAPER[1], 3e-7, 6)])
def test_the_numbers_are_those_of_the_paper(name: str, rate: float, turns: int) -> None:
    config = load(FOLDER / name)
    args, task = trl_arguments(config)
    # Of one process; eight of them make 2,560 rollouts, and 256 an optimizer step.
    rows = args.per_device_train_batch_size
    assert rows * args.steps_per_generation * 8 == 512 * 5
    assert rows * args.gradient_accumulation_steps * 8 == 256
    assert args.num_generations == 5
    assert args.max_steps == 300 * 10
    assert args.learning_rate == rate
    assert (args.lr_scheduler_type, args.warmup_steps) == ("cosine", 0.1)
    assert (args.beta, args.epsilon, args.loss_type) == (0.001, 0.2, "grpo")
    assert (args.temperature, args.top_p) == (1.0, 1.0)
    assert args.use_vllm
    assert args.vllm_mode == "colocate"
    assert args.generation_kwargs["max_tokens"] == 500
    assert "</search>" in args.generation_kwargs["stop"]
    assert args.max_completion_length == (turns + 1) * 500 + turns * 500
    assert args.vllm_max_model_length == 4096 + args.max_completion_length
    assert (task.settings.searches, task.settings.topk) == (turns, 3)
    engine = config.engine_of("coevolve")
    assert (engine.population_size, engine.parents, engine.prune_every) == (7, 1, 5)
    assert (engine.evolve_every, engine.evolve_until, engine.verify_questions) == (15, 150, 200)
    assert (engine.temperature, engine.window, engine.verify_rounds) == (0.2, 5, 5)
    assert config.engine_of("static").proposer is None


def keys_of(section: Mapping[str, object]) -> Iterator[str]:
    """The names of all settings; veRL's own without the path before them."""
    for key, value in section.items():
        if isinstance(value, Mapping) and key in ("task", "host", "engine", "arguments"):
            yield from keys_of(value)
        else:
            yield key.rpartition(".")[2]


@pytest.mark.parametrize("name", [*PAPER, *VERL])
def test_every_field_of_a_paper_recipe_stands_beside_the_paper_s_value(name: str) -> None:
    page = (DOCS / "papers.md").read_text(encoding="utf-8")
    table = page.partition("## The full-size recipes")[2].partition("\n## ")[0]
    assert set(keys_of(read(FOLDER / name))) <= set(re.findall(r"`(\w+)`", table))


def rows_of_one_gpu() -> list[tuple[str, tuple[str, ...], int]]:
    """File, changes and GiB of the rows of the page."""
    page = (DOCS / "reference" / "search-qa.md").read_text(encoding="utf-8")
    found: list[tuple[str, tuple[str, ...], int]] = []
    file = ""
    for line in page.partition("## One GPU")[2].partition("\n## ")[0].splitlines():
        if gib := re.search(r"\| (\d+) GiB \|$", line):
            file = next(iter(re.findall(r"^\| `(\S+\.yaml)`", line)), file)
            kept = ("host.lora=null", "host.offload=true") if "host.offload" in line else ()
            found.append((file, kept, int(gib[1])))
    return found


@pytest.mark.parametrize(("name", "changes", "gib"), rows_of_one_gpu())
def test_the_dry_run_of_a_recipe_for_one_gpu_says_its_time_and_the_memory_of_the_page(
    name: str, changes: tuple[str, ...], gib: int
) -> None:
    (arm, _) = forecast_run(load(FOLDER / name, changes)).arms
    figures = dict(arm.plan.figures)
    assert figures["GPU memory"].startswith(f"at most about {gib} GiB on each GPU")
    assert figures["time of a step"].startswith("about ")
    assert arm.gpu_hours > 0


@pytest.mark.parametrize("name", [*PAPER, *VERL])
def test_the_dry_run_of_a_paper_recipe_says_its_hours_and_what_they_go_to(name: str) -> None:
    config = load(FOLDER / name)
    static, evolved = forecast_run(config).arms
    assert set(static.plan.seconds) == {"generation", "tools", "log-probabilities", "update"}
    assert static.plan.gpus == 8
    assert dict(static.plan.figures)["policies"].startswith("4, of each evaluation")
    trained = 300 * sum(static.plan.seconds.values()) / 3600
    assert static.hours["training"] == pytest.approx(trained)
    assert static.hours["verification"] == 0 < evolved.hours["verification"]
    assert evolved.hours["training"] < trained
    assert sum(evolved.hours.values()) < trained, "a rollout of verification is not trained on"
    if name in PAPER:  # under veRL a question has one candidate, and verification its own rollouts
        trying = {"accept": "in-training", "candidates_per_question": "auto"}
        inside = config.model_copy(update={"engine": {**config.engine, **trying}})
        assert forecast_run(inside).arms[1].hours["verification"] == 0


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("qwen2.5-3b-trl.yaml", "host.processes=4"),
        ("qwen2.5-3b-verl.yaml", "host.gpus_per_node=4"),
        ("qwen2.5-3b-verl.yaml", "host.nodes=2"),
    ],
)
def test_a_run_is_not_resumed_on_another_number_of_gpus(
    name: str, setting: str, tmp_path: Path
) -> None:
    RunDirectory.new(tmp_path / "run", with_host_defaults(load(FOLDER / name))).write_config()
    with pytest.raises(InputError, match="required: the same settings") as refused:
        RunDirectory.resumed(tmp_path / "run", load(FOLDER / name, [setting]))
    told = str(refused.value)
    assert setting.replace("=", " is ") in told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("changes", "passes"),
    [
        ([], 2),
        (["host.arguments.beta=0"], 1),
        (["host.arguments.vllm_importance_sampling_correction=false"], 2),  # ten updates share them
        (
            [
                "host.arguments.vllm_importance_sampling_correction=false",
                "host.updates_per_step=1",
            ],
            1,
        ),
    ],
)
def test_the_passes_that_trl_makes_without_gradients_are_counted(
    changes: list[str], passes: int
) -> None:
    seconds = forecast_run(load(FOLDER / PAPER[0], changes)).arms[0].plan.seconds
    assert seconds["log-probabilities"] == pytest.approx(seconds["update"] * passes / 4)
