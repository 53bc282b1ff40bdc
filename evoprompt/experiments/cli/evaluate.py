"""``evoprompt eval``: evaluates a policy under an instruction, outside of any training."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evoprompt.experiments.cli.options import ApiKeyEnv, Changes
from evoprompt.support.credentials import masked
from evoprompt.support.errors import EvopromptError, InputError
from evoprompt.support.storage import is_follower, only_writer, require_folder
from evoprompt.support.text import format_error, printable

if TYPE_CHECKING:
    from evoprompt.agents.tasks import Method, Policy, Task
    from evoprompt.experiments.answers import EvaluationFolder, QuestionKind
    from evoprompt.experiments.evaluate import EvaluationResult, Subject

AGENT = "agent"
_BATCH = 64  # questions at a time; a kill loses as many at most


def evaluate(
    source: Annotated[
        Path,
        typer.Argument(help="Output of a run, one of its trials, or a YAML file.", metavar="RUN"),
    ],
    split: Annotated[str, typer.Option(help="Split of the questions.")] = "test",
    arm: Annotated[str | None, typer.Option(help="Of the run; else the best trial.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the run; else the best trial.")] = None,
    instruction: Annotated[
        Path | None, typer.Option(help="File with another instruction.", show_default="the best")
    ] = None,
    changes: Changes = None,
    json: Annotated[
        bool, typer.Option("--json", help="One JSON object on standard output.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder for every answer, a table and a page; goes on in it."),
    ] = None,
    methods: Annotated[
        str, typer.Option(help="Of the task, with commas between them, or 'all'; with --output.")
    ] = AGENT,
    kinds: Annotated[
        str, typer.Option(help="Kinds of questions, with commas; with --output.")
    ] = "all",
    limit: Annotated[
        int | None, typer.Option(min=1, help="Questions of each kind; with --output.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="A served model, openai:NAME; with --output.")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="Address of the server.")] = None,
    api_key_env: ApiKeyEnv = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="Of the served model, which then gets the token stream of training instead of "
            "chat messages."
        ),
    ] = None,
) -> None:
    """Evaluate a trained policy under its best instruction, greedily.

    Of a YAML file it is the task's own policy under the first seed instruction: the start of a
    training with these settings.

    With --output every answer is kept. The same command continues a stopped evaluation, repeats
    only unscored questions, and takes further methods and kinds of questions.
    """
    from evoprompt.agents.tasks import POLICY, Policy
    from evoprompt.experiments.answers import EvaluationFolder, identity_of, kinds_of, methods_of
    from evoprompt.experiments.check import require
    from evoprompt.experiments.evaluate import instruction_of, policy_of, subject_of, task_of
    from evoprompt.experiments.instruction import read_instruction

    subject = subject_of(source, changes or (), arm, seed)
    if instruction is not None:
        subject = replace(subject, instruction=read_instruction(instruction))
    if output is None:
        _refuse_without_output(
            {
                "--model": model,
                "--base-url": base_url,
                "--api-key-env": api_key_env,
                "--tokenizer": tokenizer,
                "--limit": limit,
                "--methods": None if methods == AGENT else methods,
                "--kinds": None if kinds == "all" else kinds,
            }
        )
        _evaluate(subject, split, json)
        return
    require_folder(output, "--output")
    task = task_of(subject)
    all_methods = methods_of(task, instruction_of(subject, task))
    chosen = {
        name: all_methods[name] for name in _parse_names("--methods", methods, list(all_methods))
    }
    served = None if model is None else _served(task, model, base_url, tokenizer, api_key_env)
    require([need for need in task.needs() if served is None or need.subject != POLICY])
    kinds_by_name = {kind.name: kind for kind in kinds_of(task, split, limit)}
    if not kinds_by_name:
        raise InputError(f"split {split!r} holds no question; required: at least one")
    picked = [kinds_by_name[name] for name in _parse_names("--kinds", kinds, list(kinds_by_name))]
    if served is not None and tokenizer is None:
        typer.secho(
            "requests to the policy are chat messages, not the token stream of training; for a "
            "policy that was trained here, give --tokenizer",
            fg="yellow",
        )
    policy_context = policy_of(subject, task) if served is None else nullcontext[Policy](served)
    with policy_context as policy, only_writer(output, "an evaluation"):
        identity = identity_of(task, picked, chosen, policy, split)
        _play_and_print(EvaluationFolder(output, identity), task, chosen, picked, policy, split)


def _refuse_without_output(options: Mapping[str, object]) -> None:
    """Refuse the options that only an evaluation with ``--output`` has."""
    if given := [name for name, value in options.items() if value is not None]:
        raise InputError(
            f"{', '.join(given)} without --output; required: a folder for every answer; give "
            "--output FOLDER"
        )


def _served(
    task: Task, model: str, base_url: str | None, tokenizer: str | None, api_key_env: str | None
) -> Policy:
    from evoprompt.experiments.check import require
    from evoprompt.experiments.requirements import package

    require([package("aiohttp", 'pip install -e ".[endpoint]"')])
    from evoprompt.experiments.policies import ServedModel

    return ServedModel(task, model, base_url, tokenizer, api_key_env)


def _evaluate(subject: Subject, split: str, json: bool) -> None:
    from evoprompt.experiments.evaluate import evaluate as evaluate_subject

    try:
        with redirect_stdout(sys.stderr):  # trainers print; standard output is for the result
            result = evaluate_subject(subject, split)
    except EvopromptError:
        raise
    except OSError as error:  # a model that cannot be read, a server that is not there
        raise InputError(
            f"nothing was evaluated ({format_error(error)}); required: the files and services "
            "that task and policy need; check the paths"
        ) from error
    except Exception as error:  # in the task, the trainer or the model
        typer.echo(masked(traceback.format_exc()), err=True)
        typer.secho(f"error: the evaluation failed: {format_error(error)}", fg="red", err=True)
        raise typer.Exit(1) from error
    if json and not is_follower():
        typer.echo(result.model_dump_json())
    elif not is_follower():
        _print_result(result)


def _play_and_print(
    evaluation: EvaluationFolder,
    task: Task,
    methods: Mapping[str, Method],
    kinds: Sequence[QuestionKind],
    policy: Policy,
    split: str,
) -> None:
    from rich.console import Console
    from rich.progress import Progress

    from evoprompt.experiments.answer_table import table_of, write_files
    from evoprompt.experiments.answers import EvaluationStoppedError

    console = Console(markup=False, highlight=False, soft_wrap=True)
    num_open = sum(len(evaluation.todo(name, kind.questions)) for name in methods for kind in kinds)
    stopped, trouble = "", ""
    with Progress(console=console) as progress:
        bar = progress.add_task("asking", total=num_open)
        try:
            for answers in evaluation.run(methods, kinds, task, policy, split, _BATCH):
                trouble = next(
                    (answer.error for answer in reversed(answers) if answer.error), trouble
                )
                progress.update(bar, advance=len(answers), description=answers[0].method)
        except EvaluationStoppedError as error:
            stopped = str(error)
        except KeyboardInterrupt:
            console.print("stopped; the same command continues", style="yellow")
            raise typer.Exit(130) from None
    table = table_of(evaluation, methods, kinds, task.main_metric.label)
    console.print(table.markdown())
    for path in write_files(evaluation, table, methods, kinds):
        console.print(str(path), style="dim")
    if not stopped and table.unscored:
        count = f"{table.unscored} questions are unscored, the last because {trouble}"
        stopped = f"{count}; the same command asks them again"
    if stopped:
        console.print(stopped, style="red")
        raise typer.Exit(1)


def _parse_names(option: str, text: str, available: Sequence[str]) -> list[str]:
    """Return the names in ``text``, each once."""
    from evoprompt.support.validation import nearest

    if text == "all":
        return list(available)
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names or [text]:
        if name not in available:
            raise InputError(
                f"{option} names {name!r}; required: all, or of {', '.join(available)}"
                f"{nearest(name, available)}"
            )
    return list(dict.fromkeys(names))


def _print_result(result: EvaluationResult) -> None:
    from rich.console import Console
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    values = result.evaluation
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    main_value = f"{values.value:.3f} {values.basis}".strip()
    table.add_row(result.main_metric.label, main_value, style="bold")
    for name, mean in {**values.by_kind, **values.metrics}.items():
        table.add_row(name, f"{mean:.3f}")
    if values.failures.failed:
        table.add_row("", str(values.failures), style="bold red")
    console = Console(markup=False, highlight=False)
    policy = "the task's own policy" if result.policy is None else str(result.policy)
    description = f"{policy}, greedily, on {result.questions} questions of {result.split}"
    console.print(description, style="dim", soft_wrap=True)
    console.print(table)
    text = Text(printable(result.instruction))
    console.print(Panel(text, title="instruction", title_align="left"))
