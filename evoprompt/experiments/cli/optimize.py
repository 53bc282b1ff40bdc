"""``evoprompt optimize``: a run that improves the instruction of a fixed policy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evoprompt.experiments.cli.options import (
    ApiKeyEnv,
    Changes,
    DryRun,
    FirstSeed,
    Jobs,
    Output,
    Resume,
    Seeds,
    SeedsFrom,
    with_seeds_from,
)
from evoprompt.support.credentials import masked
from evoprompt.support.errors import InputError
from evoprompt.support.storage import write_whole

if TYPE_CHECKING:
    from pydantic import JsonValue

    from evoprompt.experiments.traces import Traces
    from evoprompt.hosting.section import Settings
    from evoprompt.log.events import Event

_BUDGET = 1000  # rollouts


def optimize(
    source: Annotated[
        str | None,
        typer.Argument(
            help="YAML file of a run, the name of a task, a table of questions (JSONL, CSV or "
            "Parquet), or with --resume its output; --from-traces can do without.",
            metavar="CONFIG|TASK|TABLE",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="openai:NAME, or its name on the server at --base-url."),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(
            help="URL of the model's server, which speaks OpenAI's chat completions. No request of "
            "an --lm goes there."
        ),
    ] = None,
    api_key_env: ApiKeyEnv = None,
    budget: Annotated[
        int | None,
        typer.Option(
            min=1, help="Most rollouts a trial, validation and test included.", show_default="1000"
        ),
    ] = None,
    calls: Annotated[
        int | None, typer.Option(min=0, help="Most requests to the model, over all trials.")
    ] = None,
    usd: Annotated[
        float | None, typer.Option(min=0, help="Most USD for the model, over all trials.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Time after which a trial begins no more rollouts.")
    ] = None,
    lm: Annotated[
        str | None,
        typer.Option(
            help="Model that writes instructions, such as openai/gpt-5-mini.",
            show_default="the proposer of CONFIG, else the task's sentences",
        ),
    ] = None,
    writer_base_url: Annotated[
        str | None,
        typer.Option(
            help="URL of the server of --lm, where that is a server of your own.",
            show_default="that of the provider",
        ),
    ] = None,
    writer_api_key_env: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Environment variable that holds the key of the server of --lm.",
            show_default="the provider's own, at the provider's address",
        ),
    ] = None,
    prompt: Annotated[
        Path | None,
        typer.Option(
            help="File with the first instruction; {column} in it stands for the value of a column "
            "of TABLE."
        ),
    ] = None,
    answer: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column of TABLE with the answers.", show_default="answer"
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="What solves a question of TABLE: exact, contains, number, or module:function, a "
            "function of row and output; repeatable, then the mean counts.",
            show_default="exact",
        ),
    ] = None,
    from_traces: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER|JSONL",
            help="Begin with proposals from failures in a gateway's folder, a log_dir, "
            "or a JSONL of conversations with rewards.",
        ),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Also test the instruction that it starts from.")
    ] = False,
    output: Output = None,
    seed: FirstSeed = None,
    seeds: Seeds = None,
    changes: Changes = None,
    jobs: Jobs = 1,
    seeds_from: SeedsFrom = None,
    resume: Resume = False,
    dry_run: DryRun = False,
) -> None:
    """Improve the instruction of a model that is not trained.

    The same as evoprompt run with the host frozen: task and proposer are those of CONFIG, its host,
        arms and budget are not. best, report, eval and --seeds-from work on its output.

    Of a TABLE each row has a question and an answer, and no task is needed: half of the questions
    are for training, a quarter each for validation and test. A prompt with placeholders such as
    {text} is filled from the columns and sent alone; one without is sent before the question. The
    model writes its instructions itself, at --base-url, where --lm names no other.

    With --from-traces failures of a model in use are the writer's first requests, before any
    request to the model. Without a task the proposals are written to files, and nothing is
    measured.
    """
    from evoprompt.experiments.cli.run import launch
    from evoprompt.experiments.config import config_of, load
    from evoprompt.experiments.tables import is_table
    from evoprompt.experiments.traces import read_traces, starting_from
    from evoprompt.lm.budget import SpendTracker
    from evoprompt.support import yamlfile

    for option, value in (
        ("--writer-base-url", writer_base_url),
        ("--writer-api-key-env", writer_api_key_env),
    ):
        if value is not None and lm is None:
            raise InputError(
                f"{option} {masked(value)} is given without --lm; required: --lm MODEL, the name "
                "of the model that writes there, such as openai/NAME"
            )
    traces = None if from_traces is None or dry_run else read_traces(from_traces)
    if source is None:
        if base_url is not None:
            raise InputError(
                f"--base-url {masked(base_url)} is given without CONFIG, TASK or TABLE, so "
                "no model needs it; required: --writer-base-url URL for the server of --lm"
            )
        writer = {"model": lm, "api_base": writer_base_url, "api_key_env": writer_api_key_env}
        _write(traces, prompt, writer, output)
        return
    if resume and traces is not None:
        raise InputError(
            "--from-traces is given with --resume; required: one of both, as a run that has begun "
            "holds these proposals; drop --from-traces"
        )
    path = Path(source)
    of_file = is_table(path)
    given_options = {"--prompt": prompt, "--answer": answer, "--metric": metric}
    if of_file and prompt is None:
        raise InputError(
            f"{source} is a table of questions and --prompt is not given; required: --prompt FILE, "
            "the instruction to begin with"
        )
    for option, given_value in given_options.items():
        if given_value and not of_file:
            raise InputError(
                f"{option} {given_value} is given with {source}; required: a table of questions "
                "(.jsonl, .csv, .tsv, .parquet), to which this option belongs; drop it, or name one"
            )
    if of_file and lm is None and model is not None:  # the policy writes, on its own server
        lm = f"openai/{model.removeprefix('openai:')}"
        writer_base_url, writer_api_key_env = base_url, api_key_env
    # Server and key of the writer in CONFIG belong to the model there, not to that of --lm.
    writer = {"model": lm, "api_base": writer_base_url, "api_key_env": writer_api_key_env}
    options = {
        "host.model": model,
        "host.base_url": base_url,
        "host.api_key_env": api_key_env,
        "host.seconds": seconds,
        "host.budget.calls": calls,
        "host.budget.usd": usd,
        "budget": budget,
        "evaluate_every": budget,
        "engine.proposer": lm and {"name": "reflection", "lm": writer},
    }
    overrides = [
        f"{key}={json.dumps(value)}" for key, value in options.items() if value is not None
    ]
    overrides = with_seeds_from([*overrides, *(changes or ())], seeds_from)
    if resume and path.is_dir():
        if compare:
            raise InputError(
                f"--compare and {path} are given; required: the arms that it was begun with; leave "
                "--compare out, or begin anew with another --output"
            )
        name, output = path / "config.yaml", output or path
        begun_settings = yamlfile.read(name)
        run_config = load(
            name,
            [
                change_of_arm
                for change in overrides
                for change_of_arm in in_all_arms(change, begun_settings)
            ],
        )
    elif path.is_dir():
        raise InputError(f"{path} is a directory; required: a YAML file or a task, or --resume")
    else:
        is_file = not of_file and (path.is_file() or path.suffix in (".yaml", ".yml"))
        task: Settings = {"name": source}
        if of_file:
            metrics: JsonValue = metric[0] if metric and len(metric) == 1 else None
            settings: Settings = {
                "data": source,
                "prompt": str(prompt),
                "answer": answer,
                "metric": metrics or [*(metric or ["exact"])],
            }
            task = {"name": "questions", **settings}
        raw: Settings = yamlfile.read(path) if is_file else {"task": task}
        host = raw.get("host")
        frozen = isinstance(host, dict) and host.get("name") == "frozen"
        max_rollouts = (raw.get("budget") if frozen else None) or _BUDGET
        raw |= {
            "host": host if frozen else {"name": "frozen"},
            "arms": {"static": {}, "optimized": {}} if compare else {"optimized": {}},
            "budget": max_rollouts,
            "evaluate_every": max_rollouts,
            "smoke": {},
        }
        name, run_config = path.with_name(f"{path.stem}-optimized"), config_of(raw, path, overrides)
    if not run_config.host.get("model"):
        raise InputError(
            "no model is named; required: --model openai:NAME, or --model NAME with --base-url"
        )
    run_config, tracker = run_config.narrowed((), seed, seeds), SpendTracker()
    if traces is not None:
        run_config = starting_from(run_config, traces, tracker, _print_event)
    launch(
        run_config,
        name,
        output,
        jobs,
        resume=resume,
        dry_run=dry_run,
        tracker=tracker if traces else None,
    )


def _print_event(event: Event) -> None:
    from evoprompt.log.events import Notice, Proposed

    if isinstance(event, Notice):
        typer.secho(event.message, fg="yellow", err=True)
    elif isinstance(event, Proposed) and event.rule:
        typer.secho(f"refused ({event.rule}: {event.reason})", fg="yellow", err=True)


def _write(
    traces: Traces | None,
    prompt: Path | None,
    writer: Mapping[str, str | None],
    output: Path | None,
) -> None:
    """Write files with instructions that are not measured, and print that they are not."""
    from evoprompt.experiments.instruction import read_instruction
    from evoprompt.experiments.traces import write_from
    from evoprompt.lm.budget import SpendTracker
    from evoprompt.optimizer.options import OptimizeOptions
    from evoprompt.optimizer.writer import built
    from evoprompt.types import TaskContext, legible

    deployed = None if traces is None else traces.deployed
    first = deployed if prompt is None else read_instruction(prompt)
    if traces is None or first is None or writer["model"] is None or output is None:
        raise InputError(
            "no CONFIG, TASK or TABLE is given; required: one, or to write without measuring "
            "--from-traces FOLDER|JSONL, --lm MODEL, --output FOLDER, and of a JSONL --prompt FILE"
        )
    proposer = built("reflection", writer, None, SpendTracker())
    options, setting = OptimizeOptions(), TaskContext(trained=False)
    for number, texts in enumerate(
        write_from(traces, first, proposer, options, setting, _print_event), 1
    ):
        file = output / f"instruction-{number}.txt"
        write_whole(file, legible(texts) + "\n")
        typer.echo(file)
    typer.secho(
        "none of them is shown to be better than the one in use: that requires a task or a JSONL "
        "of questions with answers, for rollouts of the model; or evoprompt pool add GATEWAY FILE",
        fg="yellow",
        err=True,
    )


def in_all_arms(change: str, settings: Settings) -> list[str]:
    """Return a change of host settings as changes of all arms of a run that has begun.

    Args:
        change: ``KEY=VALUE``.
        settings: of its ``config.yaml``, where each arm has settings of its own.
    """
    arms = settings.get("arms")
    if not change.startswith("host.") or not isinstance(arms, dict):
        return [change]
    return [change, *(f"arms.{arm}.{change}" for arm in arms)]
