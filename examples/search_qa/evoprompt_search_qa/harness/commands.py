"""``evoprompt search-qa eval``, ``table`` and ``browse``."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from evoprompt.errors import InputError

if TYPE_CHECKING:
    from evoprompt_search_qa.harness.journal import Entry
    from evoprompt_search_qa.harness.sources import DataSet
    from evoprompt_search_qa.methods.play import Search

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
    from evoprompt_search_qa.harness.sources import find_data_sets
    from evoprompt_search_qa.methods.english import ENGLISH
    from evoprompt_search_qa.methods.registry import METHODS, find_methods
    from evoprompt_search_qa.methods.tiny import TINY
    from evoprompt_search_qa.policies.choose import kind_of, open_policy

    chosen = find_methods([*METHODS] if methods == "all" else _listed("--methods", methods))
    pair = _pair(compare, chosen)
    dialect = TINY if kind_of(policy) == "tiny" else ENGLISH
    instructions = {name: dialect.instructions[name] for name in chosen}
    if instruction is not None:
        if "search-r1" not in chosen:
            raise InputError("--instruction is for the method search-r1; add it to --methods")
        instructions["search-r1"] = _text(instruction)
    skipped: list[str] = []
    found = find_data_sets(_listed("--datasets", datasets), data, limit, skipped.append)
    _require_search(chosen, found, retriever)
    console = Console(markup=False, highlight=False, soft_wrap=True)
    for place in skipped[:_SKIPS_SHOWN]:
        console.print(f"left out: {place}", style="yellow")
    if len(skipped) > _SKIPS_SHOWN:
        console.print(f"left out: {len(skipped) - _SKIPS_SHOWN} more", style="yellow")
    evaluation = Evaluation(
        output, Settings(policy=policy, retriever=retriever, instructions=instructions)
    )
    stopped = ""
    with contextlib.ExitStack() as stack:
        search = _Searches(retriever, stack)
        contestant = Contestant(
            open_policy(policy, base_url=base_url, device=device), dialect, search
        )
        shown = stack.enter_context(_Shown(evaluation.remaining(chosen, found), console))
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
            f"{unscored} questions are unscored; see 'evoprompt search-qa browse {output}' for "
            "why; the same command asks them again",
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
    from evoprompt.runs.directory import RunDirectory
    from evoprompt_search_qa.harness.runs import run_table

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


def _require_search(
    methods: Sequence[str], data_sets: Sequence[DataSet], retriever: str | None
) -> None:
    from evoprompt_search_qa.harness.sources import HOPS
    from evoprompt_search_qa.methods.registry import METHODS

    searching = [method for method in methods if METHODS[method].searches]
    real = [data.name for data in data_sets if data.name not in HOPS]
    if searching and real and retriever is None:
        raise InputError(
            f"{', '.join(searching)} search for the questions of {', '.join(real)}; required: "
            "--retriever, the address of 'evoprompt search-qa retriever serve'"
        )


class _Searches:
    """The search tool of each data set; the client of the server is opened once."""

    def __init__(self, url: str | None, stack: contextlib.ExitStack) -> None:
        self._url = url
        self._stack = stack
        self._server: Search | None = None

    def __call__(self, data: DataSet) -> Search:
        from evoprompt_search_qa.harness.sources import HOPS

        if data.name not in HOPS and self._url is not None:
            return self._remote(self._url)
        from evoprompt_search_qa.tiny.task import SearchQa

        tool = SearchQa().tool("test")
        return lambda queries: [tool.search(query) for query in queries]

    def _remote(self, url: str) -> Search:
        if self._server is None:
            try:
                from evoprompt_search_qa.retrieval.client import BlockingRetriever, RetrievalClient
            except ModuleNotFoundError as error:
                raise InputError(
                    f"the library {error.name!r} is not installed; --retriever needs it; "
                    "pip install 'evoprompt-search-qa[search]'"
                ) from error
            retriever = self._stack.enter_context(BlockingRetriever(RetrievalClient(url)))
            self._server = retriever.many
        return self._server


class _Shown:
    """The progress of an evaluation, with the exact match of what is being asked."""

    def __init__(self, total: int, console: Console) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=console)
        self._bar = self._progress.add_task("asking", total=total)
        self._now = ("", "")
        self._right: list[float] = []
        self._unscored = 0

    def __enter__(self) -> _Shown:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def add(self, method: str, data_set: str, entries: Sequence[Entry]) -> None:
        """Advances by ``entries``."""
        if self._now != (method, data_set):
            self._now, self._right, self._unscored = (method, data_set), [], 0
        self._right += [entry.metrics["exact_match"] for entry in entries if not entry.error]
        self._unscored += sum(bool(entry.error) for entry in entries)
        mean = f"{100 * sum(self._right) / len(self._right):.1f}" if self._right else "-"
        unscored = f", {self._unscored} unscored" if self._unscored else ""
        described = f"{method} on {data_set}: {mean}{unscored}"
        self._progress.update(self._bar, advance=len(entries), description=described)
