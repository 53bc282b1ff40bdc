"""A server of chat completions that streams as OpenAI's does, and refuses what that refuses.

Server-sent events are written in pieces that end anywhere, also within a character.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from strict_openai import refusal

KEY = "sk-upstream-0123456789"
MODEL = "gpt-4.1-mini"


@dataclass(frozen=True)
class Reply:
    """What goes over the wire.

    Attributes:
        text: of the message.
        calls: of tools, name and arguments.
        status: of HTTP; from 400 on ``raw`` is the body.
        raw: instead of an answer, as it is.
        cut: bytes after which the connection breaks off; None for never.
        headers: beside the usual ones.
        gate: waited for in the middle of the answer.
    """

    text: str = "Grüße, 4."
    calls: Sequence[tuple[str, str]] = ()
    status: int = 200
    raw: bytes | None = None
    cut: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    gate: asyncio.Event | None = None


@dataclass
class Upstream:
    """What was asked and answered.

    Attributes:
        url: base URL.
        bodies: of the requests, to the byte.
        headers: of them.
        sent: what was answered to each, to the byte.
        reply: what to answer to a body.
        model_headers: of the list of models, beside the usual ones.
    """

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)
    reply: Callable[[dict[str, Any]], Reply] = lambda body: Reply()
    model_headers: dict[str, str] = field(default_factory=dict)

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The bodies."""
        return [json.loads(body) for body in self.bodies]

    async def models(self, request: web.Request) -> web.Response:
        """The list of models."""
        self.headers.append(dict(request.headers))
        listed = {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "us"}]}
        return web.json_response(listed, headers={"x-request-id": "m1", **self.model_headers})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """One answer."""
        raw = await request.read()
        self.bodies.append(raw)
        self.headers.append(dict(request.headers))
        body = json.loads(raw)
        path = request.path.removeprefix("/v1")
        if path == "/chat/completions":
            refused = refusal(path, body, request.headers.get("Authorization", ""))
            if refused is not None:
                return web.json_response(refused.body(), status=refused.status)
        reply = self.reply(body)
        if reply.status >= 400:
            return web.Response(status=reply.status, body=reply.raw, headers=reply.headers)
        stream = bool(body.get("stream"))
        if stream:
            content = reply.raw if reply.raw is not None else _events(body, reply)
        else:
            content = reply.raw if reply.raw is not None else _whole(path, body, reply)
        self.sent.append(content)
        kind = "text/event-stream; charset=utf-8" if stream else "application/json"
        usual = {"Content-Type": kind, "x-request-id": "r1", "Set-Cookie": "upstream=1"}
        response = web.StreamResponse(headers={**usual, **reply.headers})
        if not stream:
            response.content_length = len(content)
        await response.prepare(request)
        left = content if reply.cut is None else content[: reply.cut]
        for start in range(0, len(left), 7):
            if reply.gate is not None and start >= len(left) // 2:
                await reply.gate.wait()
            await response.write(left[start : start + 7])
        if reply.cut is not None and request.transport is not None:
            await asyncio.sleep(0)
            request.transport.close()
        return response


def _whole(path: str, body: Mapping[str, Any], reply: Reply) -> bytes:
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop", "logprobs": None}
    if path == "/chat/completions":
        message: dict[str, Any] = {"role": "assistant", "content": reply.text}
        if reply.calls:
            message["tool_calls"] = [_call(at, *call) for at, call in enumerate(reply.calls)]
        choice["message"] = message
    else:
        choice["text"] = reply.text
    kind = "chat.completion" if path == "/chat/completions" else "text_completion"
    return json.dumps(
        {
            **{"id": "c1", "object": kind, "created": 1, "model": body["model"]},
            **{"choices": [choice], "usage": USAGE},
        },
        indent=1,
    ).encode()


USAGE = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}


def _call(at: int, name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": f"call_{at}", "type": "function", "function": function}


def _events(body: Mapping[str, Any], reply: Reply) -> bytes:
    """An answer in deltas of a few characters; a call's name comes first, then its arguments."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": reply.text[at : at + 3]} for at in range(0, len(reply.text), 3)]
    for number, (name, arguments) in enumerate(reply.calls):
        first = {"index": number, **_call(number, name, "")}
        deltas.append({"tool_calls": [first]})
        for at in range(0, len(arguments), 5):
            part = {"index": number, "function": {"arguments": arguments[at : at + 5]}}
            deltas.append({"tool_calls": [part]})
    shared = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
    chunks: list[dict[str, Any]] = [
        {**shared, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    chunks.append({**shared, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    if (body.get("stream_options") or {}).get("include_usage"):
        chunks.append({**shared, "choices": [], "usage": USAGE})
    lines = [f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n" for chunk in chunks]
    return "".join([": processing\n\n", *lines, "data: [DONE]\n\n"]).encode()


@contextmanager
def serving() -> Iterator[Upstream]:
    """The server, on loopback, while inside."""
    upstream, loop, over = Upstream(), asyncio.new_event_loop(), asyncio.Event()
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    upstream.url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"

    async def serve() -> None:
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/chat/completions", upstream.complete)
        app.router.add_post("/v1/completions", upstream.complete)
        app.router.add_get("/v1/models", upstream.models)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        await web.SockSite(runner, listening).start()
        await over.wait()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    try:
        yield upstream
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()
