"""Measure the cost of the gateway for a request, beside the same requests without it.

    python benchmarks/gateway.py
    IMMEDIATE=1 python benchmarks/gateway.py    # an upstream that answers in one piece, now

An upstream that streams 20 pieces in half a second, the gateway, and the agents are a process each.
Each agent has three turns of a chat of 4,000 characters. Time of CPU is that of the gateway's
process; what it makes agents wait is the ratio of the times by the clock, in one run.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import tempfile
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import aiohttp
import psutil
from aiohttp import web

from evoprompt import Engine, Question
from evoprompt.gateway import Gateway, GatewaySettings

TURNS, ROLLOUTS, PIECES, SECONDS = 3, 4, 20, 0.5
IMMEDIATE = bool(os.environ.get("IMMEDIATE"))
CHUNK = {"choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": None}]}


def many_files() -> None:
    """Allow this process a connection for each agent, and one more."""
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


async def complete(request: web.Request) -> web.StreamResponse:
    """Stream an answer in pieces."""
    await request.read()
    if IMMEDIATE:
        message = {"role": "assistant", "content": "word " * PIECES}
        return web.json_response({"choices": [{"message": message, "finish_reason": "stop"}]})
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for _ in range(PIECES):
        await asyncio.sleep(SECONDS / PIECES)
        await response.write(f"data: {json.dumps(CHUNK)}\n\n".encode())
    await response.write(b"data: [DONE]\n\n")
    return response


def upstream(pipe: Connection) -> None:
    """Serve for ever."""
    many_files()

    async def serve() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", complete)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
        pipe.send(f"http://127.0.0.1:{runner.addresses[0][1]}/v1")
        await asyncio.Event().wait()

    asyncio.run(serve())


def gateway(url: str, agents: int, pipe: Connection) -> None:
    """Serve until the end, with the keys of all agents open."""
    many_files()
    engine = Engine([f"Way {number}: answer with the number alone." for number in range(7)])
    with tempfile.TemporaryDirectory() as folder:
        settings = GatewaySettings.model_validate(
            {"upstream": url, "directory": Path(folder), "rollouts": ROLLOUTS, "groups": agents}
        )
        with Gateway(engine, settings) as running_gateway:
            groups = [f"g{number // ROLLOUTS}" for number in range(agents)]
            keys = [
                running_gateway.conversation(Question(group, "What is 2 + 2?"), group)
                for group in groups
            ]
            pipe.send((running_gateway.url, keys))
            pipe.recv()


async def asked(url: str, keys: list[str]) -> float:
    """Return the seconds until all agents have had all turns, side by side."""
    content = "x" * 4000

    async def agent(key: str) -> None:
        for turn in range(TURNS):
            messages = [{"role": "user", "content": content}] * (2 * turn + 1)
            body: dict[str, Any] = {"model": "m", "stream": not IMMEDIATE, "messages": messages}
            headers = {"Authorization": f"Bearer {key}"}
            async with client.post(f"{url}/chat/completions", json=body, headers=headers) as came:
                answer = await came.read()
                assert came.status == 200, answer
                assert IMMEDIATE or answer.endswith(b"[DONE]\n\n"), answer[-100:]

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        started = time.perf_counter()
        await asyncio.gather(*map(agent, keys))
        return time.perf_counter() - started


def main() -> None:
    """Print a row for each number of agents."""
    many_files()
    context = get_context("spawn")
    own_end, child_end = context.Pipe()
    serving = context.Process(target=upstream, args=(child_end,), daemon=True)
    serving.start()
    url = own_end.recv()
    print("| agents at once | direct, s | through, s | ratio | CPU a request, ms | memory, MiB |")
    print("|---|---|---|---|---|---|")
    for agents in (64, 1000):
        mine, its = context.Pipe()
        proxy = context.Process(target=gateway, args=(url, agents, its), daemon=True)
        proxy.start()
        base, keys = mine.recv()
        process = psutil.Process(proxy.pid)
        asyncio.run(asked(url, keys[:8]))  # all processes are awake
        direct = asyncio.run(asked(url, keys))
        before = sum(process.cpu_times()[:2])
        through = asyncio.run(asked(base, keys))
        cpu_per_request = (sum(process.cpu_times()[:2]) - before) / (TURNS * agents)
        memory = process.memory_info().rss / 2**20
        mine.send("over")
        proxy.join()
        print(
            f"| {agents:,} | {direct:.1f} | {through:.1f} | {through / direct:.2f} "
            f"| {cpu_per_request * 1e3:.1f} | {memory:.0f} |",
            flush=True,
        )
    serving.terminate()


if __name__ == "__main__":
    main()
