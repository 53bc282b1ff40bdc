"""What further processes are worth to the search server, and what the death of one costs.

    cd plugins/evoprompt-retrieval
    python benchmarks/retrieval_workers.py              # over the real passages
    python benchmarks/retrieval_workers.py --copies 109 # over two million: these, 109 times

Numbers of workers take turns, so that all meet the same load of the machine. Then 2,560 rollouts
ask four questions each, one after the other; when half of the answers are here, a worker is killed.
Every answer is compared with that of the index itself. Questions and passages are those of
``retrieval.py``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from evoprompt_retrieval.bm25 import Bm25Index
from evoprompt_retrieval.client import RetrievalClient
from evoprompt_retrieval.corpus import Corpus
from evoprompt_retrieval.manifest import Bm25Manifest
from retrieval import (  # type: ignore[import-not-found]
    DATA,
    INDEX,
    SETS,
    command,
    cpu_seconds,
    load,
    memory,
    open_corpus,
    open_searched,
    questions,
    write_copies,
)

CLIENTS, SEARCHES, TOPK = 8, 4, 3
"""Clients share the rollouts, as the agent workers of a training do."""


def main(
    copies: Annotated[int, typer.Option(min=1, help="How often each passage is there.")] = 1,
    index: Annotated[Path, typer.Option(help="Folder that keeps the indexes.")] = INDEX,
    workers: Annotated[str, typer.Option(help="Which numbers, separated by commas.")] = "1,2",
    seconds: Annotated[float, typer.Option(help="Duration of a measurement.")] = 10.0,
    rounds: Annotated[int, typer.Option(min=1, help="Measurements of every number.")] = 3,
    rollouts: Annotated[int, typer.Option(min=1, help="How many ask at the same time.")] = 2560,
) -> None:
    """Prints the rows of docs/notes/2026-11-23-search-workers.md."""
    corpus = open_corpus(index)
    searched = open_searched(corpus, index, "bm25")
    where = DATA / "corpus.jsonl", index
    if copies > 1:
        where = repeat(corpus, index, copies)
        corpus = Corpus.open(*where)
        searched = Bm25Index(where[1] / "bm25")
    asked = [one.question for name in SETS for one in questions(name)]
    counts = [int(count) for count in workers.split(",")]
    print("| passages | workers | queries/s | CPU ms a query | p50 | p95, ms | MB own + mapped |")
    print("|---|---|---|---|---|---|---|")
    for count in counts * rounds:
        with serving(where, count) as (port, processes):
            asyncio.run(load(port, asked, 64, seconds / 4))  # reads the files into memory
            before = sum(map(cpu_seconds, processes))
            latencies = sorted(asyncio.run(load(port, asked, 64, seconds)))
            each = 1000 * (sum(map(cpu_seconds, processes)) - before) / len(latencies)
            cuts = [1000 * latencies[int(len(latencies) * q)] for q in (0.5, 0.95)]
            own, mapped = (sum(of) for of in zip(*map(memory, processes), strict=True))
            row = f"{len(corpus):,} | {count} | {len(latencies) / seconds:,.0f} | {each:.2f}"
            print(f"| {row} | {cuts[0]:,.0f} | {cuts[1]:,.0f} | {own:,.0f} + {mapped:,.0f} |")
    with serving(where, max(counts)) as (port, processes):
        killed = processes[-1] if max(counts) > 1 else None
        started = time.perf_counter()
        found, slowest = asyncio.run(roll_out(port, asked, rollouts, killed))
        wall = time.perf_counter() - started
    different = sorted({question for question, _ in found})
    expected = {
        question: tuple(corpus[hit.row].contents for hit in hits)
        for question, hits in zip(different, searched.search(different, TOPK), strict=True)
    }
    wrong = sum(answer != expected[question] for question, answer in found)
    print(
        f"{rollouts:,} rollouts, {len(found):,} of {rollouts * SEARCHES:,} answers, {wrong} wrong, "
        f"{wall:.1f} s, slowest answer {slowest:.1f} s, "
        f"{'a worker was killed' if killed else 'nobody was killed'}, {RETRIES.count} retries"
    )


class _Retries(logging.Handler):
    """Counts what the client says of further attempts."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += "follows" in record.getMessage()


RETRIES = _Retries()
logging.getLogger("evoprompt_retrieval.client").addHandler(RETRIES)


async def roll_out(
    port: int, asked: Sequence[str], rollouts: int, killed: int | None
) -> tuple[list[tuple[str, tuple[str, ...]]], float]:
    """Questions with their answers, and the longest wait for one, in seconds."""
    found: list[tuple[str, tuple[str, ...]]] = []
    slowest = 0.0

    async def rollout(number: int, client: RetrievalClient) -> None:
        nonlocal slowest, killed
        for search in range(SEARCHES):
            question = asked[(number * SEARCHES + search) % len(asked)]
            started = time.perf_counter()
            # A word that no passage has: no client answers from its memory.
            answer = await client.search(f"{question} zq{number}x{search}")
            slowest = max(slowest, time.perf_counter() - started)
            found.append((question, answer))
            if killed and len(found) >= rollouts * SEARCHES // 2:
                os.kill(killed, signal.SIGKILL)
                killed = None

    async with AsyncExitStack() as stack:
        url = f"http://127.0.0.1:{port}"
        clients = [
            await stack.enter_async_context(RetrievalClient(url, topk=TOPK, timeout=300.0))
            for _ in range(CLIENTS)
        ]
        await asyncio.gather(*(rollout(n, clients[n % CLIENTS]) for n in range(rollouts)))
    return found, slowest


def repeat(corpus: Corpus, index: Path, copies: int) -> tuple[Path, Path]:
    """A corpus file that holds ``corpus`` several times, and the folder of its BM25 index."""
    path, folder = index / f"copies-{copies}.jsonl", index / f"copies-{copies}"
    if not path.exists():
        partial = path.with_suffix(".partial")
        with partial.open("w") as file:
            for copy in range(copies):
                for row in range(len(corpus)):
                    passage = corpus[row]
                    record = {"title": passage.title, "text": passage.text}
                    file.write(json.dumps({"id": f"{copy}-{passage.id}", **record}) + "\n")
        partial.rename(path)
    repeated = Corpus.open(path, folder)
    if Bm25Manifest.load(folder / "bm25") is None:
        (folder / "bm25").mkdir(exist_ok=True)
        write_copies(index / "bm25", folder / "bm25", copies)
        found = Bm25Manifest.load(index / "bm25")
        assert found
        told = {"fingerprint": repeated.manifest.fingerprint, "passages": len(repeated)}
        found.model_copy(update=told).save(folder / "bm25")
    return path, folder


@contextmanager
def serving(where: tuple[Path, Path], workers: int) -> Iterator[tuple[int, list[int]]]:
    """The real server: its port, and the processes that answer."""
    what = ["--corpus", str(where[0]), "--index", str(where[1]), "--workers", str(workers)]
    with command("serve", *what, "--port", "0") as process:
        try:
            assert process.stdout
            line = process.stdout.readline()
            port = int(line.rpartition(":")[2].partition("/")[0])
            yield port, answering(process) if workers > 1 else [process.pid]
        finally:
            process.terminate()


def answering(process: subprocess.Popen[str]) -> list[int]:
    """The workers of a server."""
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [pid for pid in map(int, found) if b"spawn_main" in typed(pid)]


def typed(pid: int) -> bytes:
    """The command line of a process."""
    return Path(f"/proc/{pid}/cmdline").read_bytes()


if __name__ == "__main__":
    typer.run(main)
