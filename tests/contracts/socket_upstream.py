"""A server that is one socket, and what asks a gateway before it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

from evoprompt import Engine, Question
from evoprompt.gateway import Gateway, GatewaySettings

QUESTION = Question("q", "What is 2 + 2?", ("4",))
CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "What is 2 + 2?"}]}
LIMIT = 60.0
"""Seconds for what comes at once; a test waits so long only if it fails."""


class SocketUpstream:
    """Server whose handler has the connection for itself.

    Args:
        handler: takes the connection and its number, from 0, once the head of a request has come;
            keeps the connection for a further request if it returns true.
        host: to listen at.

    Attributes:
        requests: first line, headers and body of each request.
        port: where it listens.
        is_left: set when a handler has seen that the gateway closed its connection.
    """

    def __init__(self, handler: Handler, host: str) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.is_left = threading.Event()
        self._handler = handler
        self._listening = socket.create_server((host, 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        number = 0
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            arguments = (connection, number)
            threading.Thread(target=self._serve, args=arguments, daemon=True).start()
            number += 1

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection, connection.makefile("rb") as lines:
            while first := lines.readline().decode().strip():
                headers: dict[str, str] = {}
                while line := lines.readline().decode("latin-1").strip():
                    name, _, value = line.partition(":")
                    headers[name.lower()] = value.strip()
                body = lines.read(int(headers.get("content-length", 0)))
                self.requests.append((first, headers, body))
                if not self._handler(self, connection, number):
                    return

    def close(self) -> None:
        """Listen no more."""
        self._listening.close()

    def wait_for_close(self, connection: socket.socket) -> None:
        """Wait until the gateway closes the connection, and note it."""
        if not connection.recv(1):
            self.is_left.set()


Handler = Callable[[SocketUpstream, socket.socket, int], bool]
Standing = Callable[..., AbstractContextManager[tuple[Gateway, SocketUpstream]]]
"""The fixture of the gateway's tests."""


def sending(content: bytes, *, keep: bool = False) -> Handler:
    """Answer every request by ``content``, and close the connection unless ``keep``."""

    def handler(upstream: SocketUpstream, connection: socket.socket, number: int) -> bool:
        del upstream, number
        connection.sendall(content)
        return keep

    return handler


@contextmanager
def serving(handler: Handler, host: str = "127.0.0.1") -> Iterator[SocketUpstream]:
    with closing(SocketUpstream(handler, host)) as upstream:
        yield upstream


def build(engine: Engine, directory: Path, url: str, **given: Any) -> Gateway:
    fields = {"rollouts": 2, "groups": 1, **given}
    return Gateway(engine, GatewaySettings(upstream=url, directory=directory, **fields))


def local(upstream: SocketUpstream, host: str = "127.0.0.1") -> str:
    return f"http://{host}:{upstream.port}/v1"


def whole(content: bytes = b"", *headers: str, status: str = "200 OK") -> bytes:
    content = content or answer()
    kind = "Content-Type: application/json"
    head = [f"HTTP/1.1 {status}", kind, f"Content-Length: {len(content)}", *headers, "", ""]
    return "\r\n".join(head).encode() + content


def stream_head(*headers: str) -> bytes:
    kind = "Content-Type: text/event-stream"
    head = ["HTTP/1.1 200 OK", kind, "Connection: close", *headers, "", ""]
    return "\r\n".join(head).encode()


def answer(text: str = "4") -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}}
    return json.dumps({"choices": [{**choice, "finish_reason": "stop"}]}).encode()


def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


STREAM = event({"content": "4"}) + event({}, "stop") + b"data: [DONE]\n\n"


@contextmanager
def asking(
    gateway: Gateway, key: str, body: bytes | dict[str, Any], **headers: str
) -> Iterator[http.client.HTTPConnection]:
    """Send a request of an agent, and close its connection at the end."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=LIMIT)
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    shown = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    shown |= {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(connection):
        connection.request("POST", "/v1/chat/completions", sent, shown)
        yield connection


def ask(
    gateway: Gateway, key: str, body: bytes | dict[str, Any] = CHAT, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    with asking(gateway, key, body, **headers) as connection, connection.getresponse() as response:
        content = response.read()
        return response.status, {k.lower(): v for k, v in response.getheaders()}, content


def send(
    gateway: Gateway,
    path: str,
    body: object = CHAT,
    key: str = "",
    method: str = "POST",
    headers: dict[str, str] | None = None,
) -> tuple[int, bytes]:
    """Status and bytes; a connection that the gateway cut has the status 0."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    shown = {"Content-Type": "application/json", **(headers or {})}
    shown |= {"Authorization": f"Bearer {key}"} if key else {}
    with closing(connection):
        try:
            connection.request(method, path, content, shown)
            with connection.getresponse() as response:
                return response.status, response.read()
        except (ConnectionError, http.client.HTTPException):
            return 0, b""
