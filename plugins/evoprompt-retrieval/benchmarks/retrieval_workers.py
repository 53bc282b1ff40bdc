"""What further processes are worth to the search server, and what the death of one costs.

    cd plugins/evoprompt-retrieval
    python benchmarks/retrieval_workers.py                   # over the real passages
    python benchmarks/retrieval_workers.py --folder SCALE    # over made-up ones
    python benchmarks/retrieval_workers.py --rounds 0        # only the death of a worker

Numbers of workers take turns, so that all meet the same load of the machine. In each turn rollouts
ask four questions each, one after the other, all rollouts at the same time, through the clients of
eight agent workers with four connections each. Then 2,560 rollouts do, and a worker is killed when
half of their answers are here; every answer is compared with that of the index itself. Questions
and passages are those of ``retrieval.py``; the made-up ones are those of its command ``scale``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from evoprompt_retrieval.bm25 import Bm25Index
from evoprompt_retrieval.client import RetrievalClient
from evoprompt_retrieval.corpus import Corpus
from retrieval import (  # type: ignore[import-not-found]
    DATA,
    INDEX,
    SETS,
    command,
    cpu_seconds,
    load,
    open_corpus,
    open_searched,
    questions,
)

CLIENTS, SEARCHES, TOPK = 8, 4, 3
"""Clients share the rollouts, as the agent workers of a training do."""

QUESTIONS = 500
"""Most different questions that are asked, as the index itself has to answer each of them, too."""


@dataclass
class Outcome:
    """What rollouts got.

    Attributes:
        found: questions with their answers.
        waits: for each answer, in seconds.
        wall: seconds from the first question to the last answer.
    """

    found: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    wall: float = 0.0

    def __str__(self) -> str:
        waits = sorted(self.waits)
        cuts = [waits[int(len(waits) * q)] for q in (0.5, 0.95, 0.99)]
        each = " | ".join(f"{cut:.2f}" for cut in cuts)
        return f"{len(self.found) / self.wall:,.0f} | {each}"


def main(
    folder: Annotated[Path | None, typer.Option(help="Made-up passages, by scale.")] = None,
    index: Annotated[Path, typer.Option(help="Folder of the real ones' index.")] = INDEX,
    workers: Annotated[str, typer.Option(help="Which numbers, separated by commas.")] = "1,2,4",
    rounds: Annotated[int, typer.Option(min=0, help="Turns of every number.")] = 3,
    measured: Annotated[int, typer.Option(min=1, help="Rollouts in a turn.")] = 2560,
    rollouts: Annotated[int, typer.Option(min=0, help="Rollouts when one is killed.")] = 2560,
) -> None:
    """Prints the rows of docs/notes/2026-11-23-search-workers.md."""
    where, corpus, searched = opened(folder, index)
    asked = [one.question for name in SETS for one in questions(name)]
    asked = asked[:: -(-len(asked) // QUESTIONS)]
    if rounds:
        in_turns(where, asked, [int(count) for count in workers.split(",")] * rounds, measured)
    if rollouts:
        with serving(where, 2) as (port, processes):
            outcome = asyncio.run(roll_out(port, asked, rollouts, processes[-1]))
        answers = searched.search(asked, TOPK)
        expected = {
            question: tuple(corpus[hit.row].contents for hit in hits)
            for question, hits in zip(asked, answers, strict=True)
        }
        wrong = sum(answer != expected[question] for question, answer in outcome.found)
        print(
            f"{rollouts:,} rollouts, {len(outcome.found):,} of {rollouts * SEARCHES:,} answers, "
            f"{wrong} wrong, {outcome.wall:.1f} s, searches/s and p50, p95, p99: {outcome}, "
            f"a worker of two was killed, {RETRIES.count} requests asked again"
        )


def in_turns(
    where: tuple[Path, Path], asked: Sequence[str], counts: Sequence[int], rollouts: int
) -> None:
    """Prints a row for each turn, then how the numbers of workers compare with the first."""
    titles = "workers | searches/s | p50 | p95 | p99, s | CPU ms a search | cores busy"
    print(f"| {titles} | one alone, ms | MB own | MB mapped, shared |")
    print("|---" * 10 + "|")
    rates: dict[int, list[float]] = {}
    for count in counts:
        with serving(where, count) as (port, processes):
            asyncio.run(roll_out(port, asked, min(rollouts, 128)))  # reads the files into memory
            alone = asyncio.run(load(port, asked, 1, 3.0))
            before = sum(map(cpu_seconds, processes))
            outcome = asyncio.run(roll_out(port, asked, rollouts))
            used = sum(map(cpu_seconds, processes)) - before
            own, mapped = (sum(of) for of in zip(*map(proportional, processes), strict=True))
        rates.setdefault(count, []).append(len(outcome.found) / outcome.wall)
        each = 1000 * used / len(outcome.found)
        cells = f"{each:.2f} | {used / outcome.wall:.2f} | {1000 * median(alone):.1f}"
        print(f"| {count} | {outcome} | {cells} | {own:,.0f} | {mapped:,.0f} |", flush=True)
    first = rates[counts[0]]
    for count, found in rates.items():
        ratios = [one / other for one, other in zip(found, first, strict=True)]
        told = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{count} workers to {counts[0]}, turn by turn: {told}; median {median(ratios):.2f}")


def opened(folder: Path | None, index: Path) -> tuple[tuple[Path, Path], Corpus, Bm25Index]:
    """Corpus file and index folder, and both open."""
    if folder is None:
        corpus = open_corpus(index)
        return (DATA / "corpus.jsonl", index), corpus, open_searched(corpus, index, "bm25")
    (path,) = folder.glob("*.jsonl")
    where = path, path.with_suffix("")
    return where, Corpus.open(*where), Bm25Index(where[1] / "bm25")


class _Retries(logging.Handler):
    """Counts what the client says of further attempts."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += "follows" in record.getMessage()


RETRIES = _Retries()
logging.getLogger("evoprompt_retrieval.client").addHandler(RETRIES)


async def roll_out(
    port: int, asked: Sequence[str], rollouts: int, killed: int | None = None
) -> Outcome:
    """What rollouts got; ``killed`` is a process that dies when half of the answers are here."""
    outcome = Outcome()

    async def rollout(number: int, client: RetrievalClient) -> None:
        nonlocal killed
        for search in range(SEARCHES):
            question = asked[(number * SEARCHES + search) % len(asked)]
            started = time.perf_counter()
            # A word that no passage has: no client answers from its memory.
            answer = await client.search(f"{question} zq{number}x{search}")
            outcome.waits.append(time.perf_counter() - started)
            outcome.found.append((question, answer))
            if killed and len(outcome.found) >= rollouts * SEARCHES // 2:
                os.kill(killed, signal.SIGKILL)
                killed = None

    async with AsyncExitStack() as stack:
        url = f"http://127.0.0.1:{port}"
        clients = [
            await stack.enter_async_context(RetrievalClient(url, topk=TOPK, timeout=300.0))
            for _ in range(CLIENTS)
        ]
        started = time.perf_counter()
        await asyncio.gather(*(rollout(n, clients[n % CLIENTS]) for n in range(rollouts)))
        outcome.wall = time.perf_counter() - started
    return outcome


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


def proportional(pid: int) -> tuple[float, float]:
    """MB of a process: its own, and its share of mapped files, pages divided by who maps them."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    fields = {name: int(rest.split()[0]) / 1024 for name, rest in (li.split(":") for li in lines)}
    return fields["Pss_Anon"], fields["Pss_File"]


if __name__ == "__main__":
    typer.run(main)
