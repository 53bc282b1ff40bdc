"""A real server of two processes, in which one is killed, the index changes, or all shall end."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from evoprompt_retrieval.client import RetrievalClient
from waiting import PATIENCE, wait_for

COMMAND = "from evoprompt_retrieval.commands import app; app()"


class Server:
    """A server in processes of its own.

    Attributes:
        process: the first, which starts the others.
        url: where it answers.
    """

    def __init__(self, process: subprocess.Popen[str], url: str, log: Path) -> None:
        self.process, self.url, self._log = process, url, log

    def get(self, path: str) -> str:
        return httpx.get(f"{self.url}/{path}", timeout=PATIENCE, trust_env=False).text

    def workers(self) -> list[int]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [pid for pid in map(int, children.split()) if b"spawn_main" in _typed(pid)]

    def said(self) -> str:
        return self._log.read_text()


def _typed(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


@contextmanager
def started(corpus: Path, index: Path, log: Path, *options: str) -> Iterator[Server]:
    run = [sys.executable, "-c", COMMAND, "serve", "--port", "0", "--workers", "2", *options]
    where = ["--corpus", str(corpus), "--index", str(index)]
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [*run, *where], stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            assert process.stdout
            line = process.stdout.readline()
            assert line.startswith("serving 10 passages (bm25) on "), log.read_text()
            yield Server(process, line.split()[-1].removesuffix("/retrieve"), log)
        finally:
            process.terminate()


async def search_on(url: str, rounds: int, *, kill: int) -> Sequence[tuple[str, ...]]:
    """Answers to several clients that search on and on; one worker is killed among them."""
    async with RetrievalClient(url, topk=1) as one, RetrievalClient(url, topk=1) as other:
        found: list[tuple[str, ...]] = []
        for number in range(rounds):
            if number == rounds // 2:
                os.kill(kill, signal.SIGKILL)
            words = (f"copper xx{number}yy{place}" for place in range(4))
            asked = [client.search(word) for word in words for client in (one, other)]
            found += await asyncio.gather(*asked)
        return found


def test_a_killed_worker_is_replaced_and_no_answer_is_lost_then_all_end_in_peace(
    corpus_file: Path, tmp_path: Path
) -> None:
    with started(corpus_file, tmp_path / "index", tmp_path / "log") as server:
        assert json.loads(server.get("health"))["passages"] == 10
        wait_for(lambda: server.said().count("Application startup complete") == 2)
        before = server.workers()
        assert len(before) == 2
        found = asyncio.run(search_on(server.url, 20, kill=before[0]))
        assert len(found) == 160
        assert all("copper" in answer[0].lower() for answer in found)
        wait_for(lambda: f"Child process [{before[0]}] died" in server.said())
        wait_for(lambda: len(server.workers()) == 2)
        after = server.workers()
        assert before[1] in after
        assert before[0] not in after
        server.process.terminate()
        assert server.process.wait(PATIENCE) == 0
        assert not any(map(_typed, after))


@pytest.mark.nightly
def test_a_request_that_is_under_way_is_answered_before_the_server_ends(
    corpus_file: Path, index_folder: Path, tmp_path: Path
) -> None:
    log, drain = tmp_path / "log", f"{PATIENCE:.0f}"
    with started(corpus_file, index_folder, log, "--drain", drain) as server:
        wait_for(lambda: server.said().count("Application startup complete") == 2)
        host, port = server.url.removeprefix("http://").split(":")
        body = b'{"queries": ["copper"], "topk": 1}'
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as client:
            client.sendall(
                b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body)
            )
            assert client.recv(65_536).startswith(b"HTTP/1.1 100")  # it waits for the body
            server.process.terminate()
            wait_for(lambda: "Shutting down" in server.said())
            client.sendall(body)
            assert client.recv(65_536).startswith(b"HTTP/1.1 200")
        assert server.process.wait(PATIENCE) == 0


@pytest.mark.nightly
def test_a_corpus_that_changed_ends_the_server_with_its_name(
    corpus_file: Path, index_folder: Path, tmp_path: Path
) -> None:
    corpus = Path(shutil.copy(corpus_file, tmp_path / "facts.jsonl"))
    index = shutil.copytree(index_folder, tmp_path / "index")
    with started(corpus, index, tmp_path / "log") as server:
        wait_for(lambda: server.said().count("Application startup complete") == 2)
        corpus.write_text(corpus.read_text() + '{"id": "x", "contents": "more"}\n')
        os.kill(server.workers()[0], signal.SIGKILL)
        assert server.process.wait(PATIENCE) not in (0, None)
        assert "holds the index of another corpus (facts.jsonl" in server.said()


@pytest.mark.nightly
def test_no_worker_outlives_the_first_process(
    corpus_file: Path, index_folder: Path, tmp_path: Path
) -> None:
    with started(corpus_file, index_folder, tmp_path / "log") as server:
        wait_for(lambda: server.said().count("Application startup complete") == 2)
        workers = server.workers()
        server.process.kill()
        wait_for(lambda: not any(map(_typed, workers)))
