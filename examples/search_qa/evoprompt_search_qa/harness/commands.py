"""``evoprompt search-qa eval``, ``table`` and ``browse``."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from evoprompt.errors import InputError
from evoprompt.experiments.cli.forecast import end_dry_run
from evoprompt.storage import require_folder

if TYPE_CHECKING:
    from evoprompt_search_qa.open.agent import AgentSettings

_SKIPS_SHOWN = 10


class Metric(StrEnum):
    """What the table holds."""

    exact_match = "exact_match"
    f1 = "f1"
    substring_match = "substring_match"
    valid_format = "valid_format"


class Device(StrEnum):
    """Where a transformers policy computes."""

    cpu = "cpu"
    cuda = "cuda"


def evaluate(
    output: Annotated[Path, typer.Option(help="Folder to write, or to continue in.")],
    methods: Annotated[
        str, typer.Option(help="Methods with commas between them, or 'all'.")
    ] = "all",
    datasets: Annotated[
        str,
        typer.Option(help="'tiny', '1-hop', 'all' seven, 'nq,popqa', FILE.jsonl; with commas."),
    ] = "tiny",
    policy: Annotated[
        str, typer.Option(help="tiny, tiny:FOLDER, transformers:NAME or openai:NAME.")
    ] = "tiny",
    data: Annotated[
        Path | None, typer.Option(help="Folder with the seven sets, as 'data prepare' writes it.")
    ] = None,
    retriever: Annotated[
        str | None, typer.Option(help="Address of the search server for real questions.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="Address of an OpenAI-compatible endpoint.")
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="Name or folder of the tokenizer of an openai policy, which is then sent the "
            "token stream of training instead of chat messages."
        ),
    ] = None,
    recipe: Annotated[
        Path | None,
        typer.Option(
            help="Configuration or output of the run that trained the policy, to play its agent: "
            "placement, limits and instruction."
        ),
    ] = None,
    instruction: Annotated[
        Path | None, typer.Option(help="File with the instruction of the method search-r1.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Questions a data set.")] = None,
    batch: Annotated[
        int, typer.Option(min=1, help="Questions at a time; a kill loses as many at most.")
    ] = 64,
    device: Annotated[Device, typer.Option(help="Of a transformers policy.")] = Device.cpu,
    metric: Annotated[Metric, typer.Option(help="Of the table.")] = Metric.exact_match,
    compare: Annotated[
        str | None,
        typer.Option(help="Two methods to test against each other: 'rag,search-r1'."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be asked and what is missing.")
    ] = False,
) -> None:
    """Ask data sets by the inference methods of the paper; a table in the shape of its Table 1.

    The same command continues what was stopped, asks nothing twice but what
    could not be scored, and takes further methods and data sets. Keys of
    endpoints are read from OPENAI_API_KEY.
    """
    from evoprompt_search_qa.harness.evaluate import (
        Contestant,
        Evaluation,
        Settings,
        StoppedError,
    )
    from evoprompt_search_qa.harness.identity import identify
    from evoprompt_search_qa.harness.plan import Wanted, plan_evaluation
    from evoprompt_search_qa.harness.progress import Shown
    from evoprompt_search_qa.harness.searches import Searches, require_address, require_search
    from evoprompt_search_qa.harness.sources import find_data_sets
    from evoprompt_search_qa.methods.english import english
    from evoprompt_search_qa.methods.registry import METHODS, find_methods
    from evoprompt_search_qa.methods.tiny import TINY
    from evoprompt_search_qa.policies.choose import kind_of, open_policy

    require_folder(output, "--output")
    kind = kind_of(policy)
    if tokenizer is not None and kind != "openai":
        raise InputError(f"--tokenizer is for a policy openai:NAME, but --policy is {policy!r}")
    if recipe is not None and kind == "tiny":
        raise InputError("--recipe is for language models; the tiny policy has but one agent")
    agent = _agent(recipe)
    chosen = find_methods([*METHODS] if methods == "all" else _listed("--methods", methods))
    pair = _pair(compare, chosen)
    sets = _listed("--datasets", datasets)
    if instruction is not None and "search-r1" not in chosen:
        raise InputError("--instruction is for the method search-r1; add it to --methods")
    if retriever is not None:
        require_address(retriever)
    console = Console(markup=False, highlight=False, soft_wrap=True)
    skipped: list[str] = []
    if dry_run:
        wanted = Wanted(
            chosen, sets, data, limit, policy, base_url, retriever, device.value, instruction
        )
        plan = plan_evaluation(wanted, skipped.append)
        _show_skipped(skipped, console)
        end_dry_run(plan)
    dialect = TINY if kind == "tiny" else english(agent)
    instructions = {name: dialect.instructions[name] for name in chosen}
    if instruction is not None:
        instructions["search-r1"] = _text(instruction)
    found = find_data_sets(sets, data, limit, skipped.append)
    require_search(chosen, found, retriever)
    _show_skipped(skipped, console)
    asked = open_policy(policy, base_url=base_url, device=device, tokenizer=tokenizer)
    if kind == "openai" and tokenizer is None:
        console.print(
            "the policy is asked in chat messages, not with the token stream of training; for a "
            "policy that was trained here, give --tokenizer",
            style="yellow",
        )
    identity = identify(asked, dialect, found, retriever, agent.topk)
    for name in identity.unknown:
        console.print(
            f"the {name.replace('_', ' ')} is unknown, as its server does not say: nobody will "
            "notice if it is another one when this evaluation is continued",
            style="yellow",
        )
    evaluation = Evaluation(
        output,
        Settings(policy=policy, retriever=retriever, instructions=instructions, identity=identity),
    )
    stopped = ""
    with contextlib.ExitStack() as stack:
        search = Searches(retriever, agent.topk, stack)
        contestant = Contestant(asked, dialect, search)
        shown = stack.enter_context(Shown(evaluation.remaining(chosen, found), console))
        try:
            evaluation.run(chosen, found, contestant, batch, shown.add)
        except StoppedError as error:
            stopped = str(error)
        except KeyboardInterrupt:
            console.print("stopped; the same command continues", style="yellow")
            raise typer.Exit(130) from None
    table = evaluation.table(chosen, found, metric, pair)
    console.print(table.markdown())
    for path in table.write(output):
        console.print(str(path), style="dim")
    unscored = sum(row.cells[-1].unscored for row in table.rows)
    if stopped:
        console.print(stopped, style="red")
    elif unscored:
        console.print(
            f"{unscored} questions are unscored, the last because {shown.trouble}; 'evoprompt "
            f"search-qa browse {output}' shows all; the same command asks them again",
            style="yellow",
        )
    if stopped or unscored:
        raise typer.Exit(1)


def table(
    runs: Annotated[list[Path], typer.Argument(help="Output directories of runs, together.")],
    output: Annotated[
        Path | None, typer.Option(help="Folder for the table.", show_default="the first run's")
    ] = None,
) -> None:
    """Make the table of a run such as table-tiny.yaml, or of several with other seeds each."""
    from evoprompt.experiments.directory import RunDirectory
    from evoprompt_search_qa.harness.runs import run_table

    require_folder(output or runs[0], "--output")
    made = run_table([RunDirectory.open(run) for run in runs])
    console = Console(markup=False, highlight=False, soft_wrap=True)
    console.print(made.markdown())
    for path in made.write(output or runs[0]):
        console.print(str(path), style="dim")


def browse(
    folder: Annotated[Path, typer.Argument(help="The --output of an evaluation.")],
    limit: Annotated[int, typer.Option(min=1, help="Trajectories a method and data set.")] = 500,
) -> None:
    """Write a page with every trajectory of an evaluation, to be filtered and read in a browser."""
    from evoprompt_search_qa.harness.browse import write_page

    typer.echo(f"wrote {write_page(folder, limit)}")


def _agent(recipe: Path | None) -> AgentSettings:
    """The agent that a run trained, by its configuration or output; else the usual one."""
    from evoprompt.experiments.config import load
    from evoprompt.experiments.directory import RunDirectory
    from evoprompt_search_qa.open.agent import AgentSettings

    if recipe is None:
        return AgentSettings()
    task = (RunDirectory.open(recipe).config if recipe.is_dir() else load(recipe)).task
    if task["name"] != "search-qa-open":
        raise InputError(
            f"--recipe {recipe} is of the task {task['name']!r}; required: 'search-qa-open', whose "
            "agent can be chosen"
        )
    known = {name: task[name] for name in AgentSettings.model_fields if name in task}
    return AgentSettings.model_validate(known)


def _listed(option: str, given: str) -> list[str]:
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not names:
        raise InputError(f"{option} is {given!r}; required: at least one name")
    return names


def _pair(compare: str | None, methods: Sequence[str]) -> tuple[str, str] | None:
    """The two methods to test: those asked for, or those there are if they are two."""
    names = list(methods) if compare is None else _listed("--compare", compare)
    if compare is None and len(names) != 2:
        return None
    if len(names) != 2 or names[0] == names[1] or not set(names) <= set(methods):
        raise InputError(
            f"--compare is {compare!r}; required: two of the methods {', '.join(methods)}, with a "
            "comma between them"
        )
    return names[0], names[1]


def _text(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--instruction {path} cannot be read ({error})") from error
    if not text:
        raise InputError(f"--instruction {path} is empty; required: the text of an instruction")
    return text


def _show_skipped(skipped: Sequence[str], console: Console) -> None:
    for place in skipped[:_SKIPS_SHOWN]:
        console.print(f"left out: {place}", style="yellow")
    if len(skipped) > _SKIPS_SHOWN:
        console.print(f"left out: {len(skipped) - _SKIPS_SHOWN} more", style="yellow")
