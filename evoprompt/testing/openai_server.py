"""Scripted HTTP server on loopback with the OpenAI protocol, for tests of LM proposers.

Answers come from a script, one *step* for each request; after its end, from a default. A step
determines the bytes of the response: an answer, an error status, a connection that drops or drips.
The server accepts any request under any model name.

    with OpenAIServer([Status(429), Text("hello")]) as server:
        ...  # openai clients with base_url=server.url get a 429, then "hello"
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Text:
    """Chat completion.

    Attributes:
        text: content of the message.
        seconds: pause before each piece.
        pieces: number of pieces of its bytes; with many pieces an answer is slow although no single
            read times out.
        finish_reason: ``"stop"``, or ``"length"`` for an answer cut at ``max_tokens``.
        prompt_tokens: reported usage, in tokens.
        completion_tokens: reported usage, in tokens.
    """

    text: str
    seconds: float = 0.0
    pieces: int = 1
    finish_reason: str = "stop"
    prompt_tokens: int = 100
    completion_tokens: int = 20


@dataclass(frozen=True, slots=True)
class Calls:
    """Chat completion that calls tools.

    Attributes:
        calls: name and arguments of each; the latter is the text that the model wrote, valid JSON
            or not.
        text: text in addition to the calls.
    """

    calls: Sequence[tuple[str, str]]
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """HTTP error."""

    code: int
    headers: Mapping[str, str] = field(default_factory=dict)
    message: str = "scripted error"


@dataclass(frozen=True, slots=True)
class Body:
    """Response of any bytes: not JSON, no choices, cut in the middle."""

    content: bytes
    code: int = 200


@dataclass(frozen=True, slots=True)
class Drop:
    """Close of the connection without an answer."""


Step = Text | Calls | Status | Body | Drop
Answer = str | Step | Callable[[Mapping[str, Any]], "str | Step"]
"""Step, its text, or a function of the request body that returns one of the two."""


@dataclass(frozen=True, slots=True)
class Received:
    """Received request.

    Attributes:
        path: path of the URL.
        body: parsed JSON.
        authorization: the header; empty if there was none.
    """

    path: str
    body: Mapping[str, Any]
    authorization: str

    @property
    def prompt(self) -> str:
        """Return the contents of all messages, joined by blank lines."""
        messages = self.body["messages" if "messages" in self.body else "input"]
        return "\n\n".join(str(message["content"]) for message in messages)


def chat_fields(**fields: object) -> str:
    """Return a completion in the format in which DSPy requests output fields.

    >>> print(chat_fields(instructions=["Add."]))
    [[ ## instructions ## ]]
    ["Add."]
    <BLANKLINE>
    [[ ## completed ## ]]
    """
    parts = [
        f"[[ ## {name} ## ]]\n{value if isinstance(value, str) else json.dumps(value)}"
        for name, value in fields.items()
    ]
    return "\n\n".join([*parts, "[[ ## completed ## ]]"])


class OpenAIServer:
    """Scripted server; use it as a context manager.

    Args:
        script: answers to the first requests, in order of arrival.
        default: answer to every request after them.

    Attributes:
        requests: all received requests.
    """

    def __init__(self, script: Iterable[Answer] = (), default: Answer = "ok") -> None:
        self.requests: list[Received] = []
        self._script = list(script)
        self._default = default
        self._lock = threading.Lock()
        self._server = _server(self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    @property
    def url(self) -> str:
        """Return the base URL for clients, such as ``http://127.0.0.1:41234/v1``."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Receive one request and send the response of the script."""
        length = int(handler.headers.get("Content-Length", 0))
        body = json.loads(handler.rfile.read(length) or b"{}")
        received = Received(handler.path, body, handler.headers.get("Authorization", ""))
        with self._lock:
            self.requests.append(received)
        _send(handler, self.reply(received), body)

    def reply(self, received: Received) -> Step:
        """Return the script's step for a request; override it for a server with rules."""
        with self._lock:
            answer = self._script.pop(0) if self._script else self._default
        step = answer(received.body) if callable(answer) else answer
        return Text(step) if isinstance(step, str) else step


def _server(owner: OpenAIServer) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            try:
                owner.answer(self)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # the client gave up, as some tests want it to

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False
        request_queue_size = 128

    return Server(("127.0.0.1", 0), Handler)


def _send(handler: BaseHTTPRequestHandler, step: Step, body: Mapping[str, Any]) -> None:
    match step:
        case Drop():
            handler.close_connection = True
        case Status(code, headers, message):
            error = {"error": {"message": message, "type": "scripted", "code": None}}
            _respond(handler, code, [json.dumps(error).encode()], headers)
        case Body(content, code):
            _respond(handler, code, [content])
        case Text():
            content = _completion(step, body)
            size = -(-len(content) // step.pieces)
            parts = [content[start : start + size] for start in range(0, len(content), size)]
            _respond(handler, 200, parts, pause=step.seconds)
        case Calls():
            _respond(handler, 200, [_calling(step, body)])


def _respond(
    handler: BaseHTTPRequestHandler,
    code: int,
    parts: Sequence[bytes],
    headers: Mapping[str, str] | None = None,
    pause: float = 0.0,
) -> None:
    handler.send_response(code)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(sum(map(len, parts))))
    for name, value in (headers or {}).items():
        handler.send_header(name, value)
    handler.end_headers()
    for part in parts:
        time.sleep(pause)
        handler.wfile.write(part)
        handler.wfile.flush()


def _completion(step: Text, body: Mapping[str, Any]) -> bytes:
    message = {"role": "assistant", "content": step.text}
    return json.dumps(
        {
            "id": "scripted",
            "object": "chat.completion",
            "created": 0,
            "model": body.get("model"),
            "choices": [{"index": 0, "finish_reason": step.finish_reason, "message": message}],
            "usage": {
                "prompt_tokens": step.prompt_tokens,
                "completion_tokens": step.completion_tokens,
                "total_tokens": step.prompt_tokens + step.completion_tokens,
            },
        }
    ).encode()


def _calling(step: Calls, body: Mapping[str, Any]) -> bytes:
    """Return the answer of a model that calls tools.

    Raises:
        ValueError: the request names no tools, so that no model would call one.
    """
    if not body.get("tools"):
        raise ValueError("the script calls tools that the request does not name")
    answer = json.loads(_completion(Text(step.text or ""), body))
    calls = [
        {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": text}}
        for number, (name, text) in enumerate(step.calls)
    ]
    message = {"role": "assistant", "content": step.text, "refusal": None, "tool_calls": calls}
    answer["choices"] = [{"index": 0, "finish_reason": "tool_calls", "message": message}]
    return json.dumps(answer).encode()
