"""How much of a result is in the weights and how much in the instruction: every pair, tested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from evoprompt.errors import InputError
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt_search_qa import bank
from evoprompt_search_qa.tiny.agent import SearchAgent
from evoprompt_search_qa.tiny.evaluation import evaluate
from evoprompt_search_qa.tiny.policy import load_policy
from evoprompt_search_qa.tiny.task import SearchQa, SearchQaSettings


@dataclass(frozen=True, slots=True)
class Controls:
    """Test exact match of weights under instructions, means over the seeds of a run.

    Attributes:
        seeds: how many seeds were averaged.
        home: by weights, then by instruction, in the world of training.
        abroad: the same in the second world, whose facts no training saw.
    """

    seeds: int
    home: Mapping[str, Mapping[str, float]]
    abroad: Mapping[str, Mapping[str, float]]


def controls(run: Path, static: str = "static", evolved: str = "coevolve") -> Controls:
    """Tests the untrained and both trained policies under the seed, a good and evolved instruction.

    Args:
        run: the output directory of a finished run.
        static: the arm that kept its instruction.
        evolved: the arm whose instruction evolved.

    Raises:
        InputError: the run has no seed that both arms finished.
    """
    directory = RunDirectory.open(run)
    settings = {key: value for key, value in directory.config.task.items() if key != "name"}
    task = SearchQa(SearchQaSettings.model_validate(settings))
    tables: dict[str, dict[str, dict[str, list[float]]]] = {"test": {}, "transfer": {}}
    finished = 0
    for seed in directory.config.seeds:
        files = {arm: directory.trial(TrialId(arm, seed)) for arm in (static, evolved)}
        result = files[evolved].finished
        if result is None or files[static].finished is None:
            continue
        finished += 1
        weights = {
            "untrained": task.settings.policy,
            f"trained, {static}": files[static].policy,
            f"trained, {evolved}": files[evolved].policy,
        }
        instructions = {
            "seed": task.seed_instructions[0],
            "hand-written": bank.compose(bank.GOOD_IDEAS),
            "evolved": result.best_instruction,
        }
        for name, folder in weights.items():
            policy, tokenizer = load_policy(folder)
            for split, table in tables.items():
                agent = SearchAgent(policy, tokenizer, task.tool(split).search)
                for kind, instruction in instructions.items():
                    found = evaluate(agent, instruction, task.questions(split))
                    table.setdefault(name, {}).setdefault(kind, []).append(found.value)
    if not finished:
        raise InputError(
            f"{run} has no seed that both {static!r} and {evolved!r} finished; required: a "
            "finished run of both; run it first, or name the arms"
        )
    home, abroad = (
        {name: {kind: fmean(found) for kind, found in row.items()} for name, row in table.items()}
        for table in tables.values()
    )
    return Controls(finished, home, abroad)
