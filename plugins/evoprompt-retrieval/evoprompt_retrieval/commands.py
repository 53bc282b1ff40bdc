"""``evoprompt retriever ...``."""

from __future__ import annotations

import contextlib
import os
import reprlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from evoprompt.support.errors import InputError
from evoprompt_retrieval.index import Backend, Device, Dtype, IndexSettings, open_index

if TYPE_CHECKING:
    from evoprompt_retrieval.corpus import Corpus
    from evoprompt_retrieval.index import SearchIndex

_SKIPS_SHOWN = 10

CorpusOption = Annotated[Path, typer.Option("--corpus", help="Passages: .jsonl or .jsonl.gz.")]
IndexOption = Annotated[Path, typer.Option("--index", help="Folder of the index.")]
BackendOption = Annotated[
    Backend, typer.Option("--backend", help="By words, by meaning, or both fused.")
]
EncoderOption = Annotated[str, typer.Option("--encoder", help="A sentence-transformers model.")]
FaissOption = Annotated[
    str,
    typer.Option(
        "--faiss", help="'Flat', 'Half', or an inverted file such as 'IVF512,PQ96x4fs,RFlat'."
    ),
]
FaissSearchOption = Annotated[
    str, typer.Option("--faiss-search", help="Search-time parameters: 'nprobe=192'.")
]
DeviceOption = Annotated[Device, typer.Option("--device", help="Where vectors are computed.")]
DtypeOption = Annotated[
    Dtype, typer.Option("--dtype", help="Precision of the encoder; half of it is for GPUs.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Print the planned work and unmet needs.")
]

app = typer.Typer(name="retriever", help="Search over a corpus.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Search over a corpus."""


@app.command()
def build(
    corpus: CorpusOption,
    index: IndexOption,
    backend: BackendOption = "bm25",
    encoder: EncoderOption = "intfloat/e5-base-v2",
    faiss: FaissOption = "Flat",
    faiss_search: FaissSearchOption = "",
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    vectors: Annotated[
        Path | None,
        typer.Option(help="A flat FAISS index of the passages, such as Search-R1's, to search in."),
    ] = None,
    dry_run: DryRunOption = False,
) -> None:
    """Build an index, or finish one that was interrupted."""
    if vectors is not None and backend == "bm25":
        raise InputError("--vectors is given with --backend bm25; required: dense or hybrid")
    if vectors is not None:
        try:
            vectors.open("rb").close()  # before an encoder is loaded
        except OSError as error:
            raise InputError(
                f"--vectors is {reprlib.repr(str(vectors))}, which cannot be read "
                f"({error.strerror}); required: a flat FAISS index; check the path"
            ) from error
    chosen = IndexSettings(
        corpus, index, backend, encoder, faiss, faiss_search, device, dtype, vectors
    )
    if dry_run:
        _print_needs(chosen)
    passages, _ = _open(chosen)
    typer.echo(f"{index} holds the {backend} index of {len(passages):,} passages")


@app.command()
def query(
    text: Annotated[str, typer.Argument(help="Text to search for.")],
    corpus: Annotated[Path | None, typer.Option(help="Passages.")] = None,
    index: Annotated[Path | None, typer.Option(help="Folder of the index.")] = None,
    url: Annotated[str, typer.Option(help="Search with this server in place of an index.")] = "",
    topk: Annotated[int, typer.Option(min=1, help="Passages to show.")] = 3,
    backend: BackendOption = "bm25",
    encoder: EncoderOption = "intfloat/e5-base-v2",
    faiss: FaissOption = "Flat",
    faiss_search: FaissSearchOption = "",
    dry_run: DryRunOption = False,
) -> None:
    """Show the best passages for a text."""
    if dry_run and url:
        from evoprompt.agents.tasks import Plan
        from evoprompt.experiments.cli.forecast import end_dry_run
        from evoprompt_retrieval.plan import search_server

        end_dry_run(Plan(needs=[search_server(url)]))
    elif url:
        from evoprompt_retrieval.client import BlockingRetriever, RetrievalClient

        with BlockingRetriever(RetrievalClient(url, topk=topk)) as search:
            contents = search(text)
    elif corpus and index:
        chosen = IndexSettings(corpus, index, backend, encoder, faiss, faiss_search)
        if dry_run:
            _print_needs(chosen)
        passages, searched = _open(chosen)
        contents = tuple(passages[hit.row].contents for hit in searched.search([text], topk)[0])
    else:
        raise InputError("nothing to search in; give --corpus and --index, or --url")
    typer.echo("\n\n".join(contents) or "nothing found")


@app.command()
def serve(
    corpus: CorpusOption,
    index: IndexOption,
    backend: BackendOption = "bm25",
    encoder: EncoderOption = "intfloat/e5-base-v2",
    faiss: FaissOption = "Flat",
    faiss_search: FaissSearchOption = "",
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free one.")] = 8000,
    workers: Annotated[
        int, typer.Option(min=1, help="Processes that answer, over one memory-mapped index.")
    ] = 1,
    drain: Annotated[
        int, typer.Option(min=0, help="Seconds for answers under way when the server is ended.")
    ] = 10,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A host name that clients use, beside this machine's; repeatable."),
    ] = None,
    dry_run: DryRunOption = False,
) -> None:
    """Serve searches over HTTP in Search-R1's protocol; builds the index when it is missing."""
    chosen = IndexSettings(corpus, index, backend, encoder, faiss, faiss_search, device, dtype)
    if dry_run:
        _print_needs(chosen)
    from evoprompt_retrieval import serving

    if workers > (cores := len(os.sched_getaffinity(0))):
        typer.echo(
            f"notice: {workers} workers share {cores} CPU cores; further ones answer no faster",
            err=True,
        )
    application = serving.Application(chosen, (host, *(allow_host or [])))
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(s) for s in serving.bind(host, port, workers)]
        passages, _ = _open(chosen)
        for socket in sockets:
            socket.listen(serving.BACKLOG)  # clients wait from now on until a process accepts
        url_host = f"[{host}]" if ":" in host else host
        address = f"http://{url_host}:{sockets[0].getsockname()[1]}/retrieve"
        typer.echo(f"serving {len(passages):,} passages ({backend}) on {address}")
        serving.serve(application, sockets, drain)


def _print_needs(chosen: IndexSettings) -> NoReturn:
    """Print the needs of an index, and end the command."""
    from evoprompt.experiments.cli.forecast import end_dry_run
    from evoprompt_retrieval.plan import plan_index

    end_dry_run(plan_index(chosen))


def _open(chosen: IndexSettings) -> tuple[Corpus, SearchIndex]:
    """Return the corpus and its index, built with a progress bar if missing."""
    from rich.console import Console
    from rich.progress import Progress, TaskID

    console = Console(stderr=True)
    skips = 0

    def show_skip(message: str) -> None:
        nonlocal skips
        skips += 1
        if skips <= _SKIPS_SHOWN:
            console.print(f"left out: {message}", markup=False, soft_wrap=True)

    progress, bars = Progress(console=console), dict[str, TaskID]()

    def show_progress(stage: str, done: int, total: int) -> None:
        progress.start()
        if stage not in bars:
            bars[stage] = progress.add_task(stage)
        progress.update(bars[stage], completed=done, total=total)

    try:
        corpus_and_index = open_index(chosen, show_skip, show_progress)
    except ModuleNotFoundError as error:
        raise InputError(
            f"the library {error.name!r} is not installed; search by meaning needs it; "
            "pip install -e 'plugins/evoprompt-retrieval[dense]'"
        ) from error
    finally:
        if bars:  # else it would print an empty line
            progress.stop()
    if skips > _SKIPS_SHOWN:
        console.print(f"left out {skips:,} lines in all, listed in {chosen.folder}/skipped.txt")
    return corpus_and_index
