"""A real server of two processes, in which one is killed, the index changes, or all shall end."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
from evoprompt_retrieval.bm25 import Bm25Index
from evoprompt_retrieval.client import RetrievalClient
from evoprompt_retrieval.corpus import Corpus
from evoprompt_retrieval.crew import Crew
from evoprompt_retrieval.metrics import SHARED
from evoprompt_retrieval.requests import ServerLimits
from evoprompt_retrieval.server import create_app
from evoprompt_retrieval.shared_folder import remove_abandoned
from starlette.testclient import TestClient
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
            assert line.startswith("serving 10 passages (bm25) by 2 workers on "), log.read_text()
            yield Server(process, line.split()[-1].removesuffix("/retrieve"), log)
        finally:
            process.terminate()


def folder_of(worker: int) -> Path:
    """The folder that a worker shares with the others."""
    variables = Path(f"/proc/{worker}/environ").read_text().split("\0")
    return Path(next(v for v in variables if v.startswith(f"{SHARED}=")).partition("=")[2])


def metric(server: Server, name: str) -> float:
    found = re.search(
        rf"^evoprompt_retriever_{re.escape(name)} (\S+)$", server.get("metrics"), re.M
    )
    return float(found[1]) if found else 0.0


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
    with started(
        corpus_file, tmp_path / "index", tmp_path / "log", "--drain", f"{PATIENCE:.0f}"
    ) as server:
        assert json.loads(server.get("ready")) == {"ready": True, "workers": 2, "loaded": 2}
        before = server.workers()
        assert len(before) == 2
        found = asyncio.run(search_on(server.url, 20, kill=before[0]))
        assert len(found) == 160
        assert all("copper" in answer[0].lower() for answer in found)
        wait_for(lambda: f"worker {before[0]} ended (SIGKILL); worker" in server.said())
        wait_for(lambda: metric(server, "workers") == 2.0)
        after = server.workers()
        assert before[1] in after
        assert before[0] not in after
        assert metric(server, "queries_total") >= 150.0  # the dead one's are not forgotten
        assert metric(server, 'request_seconds_count{route="/retrieve"}') > 20.0

        host, port = server.url.removeprefix("http://").split(":")
        body = b'{"queries": ["copper"], "topk": 1}'
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as client:
            client.sendall(
                b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (len(body), body[:10])
            )
            wait_for(lambda: metric(server, "open_requests") == 2.0)  # with the one that asks
            server.process.terminate()
            wait_for(lambda: _refuses(host, int(port)))
            client.sendall(body[10:])
            assert client.recv(65_536).startswith(b"HTTP/1.1 200")
        assert server.process.wait(PATIENCE) == 0


def _refuses(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=PATIENCE).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        return False
    return False


def test_an_index_that_changed_ends_the_server_with_its_name(
    corpus_file: Path, index_folder: Path, bm25: Bm25Index, tmp_path: Path
) -> None:
    index = shutil.copytree(index_folder, tmp_path / "index")
    with started(corpus_file, index, tmp_path / "log", "--drain", "1") as server:
        os.utime(index / "bm25" / "params.index.json", (0, 0))
        os.kill(server.workers()[0], signal.SIGKILL)
        assert server.process.wait(PATIENCE) not in (0, None)
        assert "params.index.json changed while the server ran; required: one index" in (
            server.said()
        )


def test_no_worker_outlives_the_first_process(
    corpus_file: Path, index_folder: Path, bm25: Bm25Index, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(started(corpus_file, index_folder, tmp_path / "log"))
        workers = server.workers()
        left = folder_of(workers[0])
        remove_abandoned(left.parent)
        assert left.is_dir()  # held
        server.process.kill()
        wait_for(lambda: not any(map(_typed, workers)))
        wait_for(lambda: _is_gone(left))


def _is_gone(folder: Path) -> bool:
    remove_abandoned(folder.parent)
    return not folder.exists()


def test_a_server_is_ready_once_all_its_workers_are(
    corpus: Corpus, bm25: Bm25Index, tmp_path: Path
) -> None:
    app = create_app(corpus, bm25, "test", ServerLimits(), (), Crew(tmp_path, 2))
    with TestClient(app, base_url="http://localhost") as client:
        answer = client.get("/ready")
        assert (answer.status_code, answer.json()["loaded"]) == (503, 1)
        assert client.get("/health").status_code == 200
        (tmp_path / "1.joined").touch()
        assert client.get("/ready").json() == {"ready": True, "workers": 2, "loaded": 2}
