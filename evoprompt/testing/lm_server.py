"""A language model on this machine that speaks OpenAI's protocol and answers by a script."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType


class ScriptedLm:
    """A server on the loopback interface; use it as a context manager.

    Point a proposer at it with ``lm: {model: openai/scripted, api_base: <url>}``.

    Args:
        answer: what to say to a prompt, which is the texts of all messages, joined by blank lines.

    Attributes:
        prompts: everything it was asked, oldest first.
    """

    def __init__(self, answer: Callable[[str], str]) -> None:
        self.prompts: list[str] = []
        lock = threading.Lock()

        def respond(body: dict[str, object]) -> dict[str, object]:
            messages = body["messages"]
            assert isinstance(messages, list)
            prompt = "\n\n".join(_text(message["content"]) for message in messages)
            with lock:
                self.prompts.append(prompt)
                text = answer(prompt)
            return {
                "id": "scripted",
                "object": "chat.completion",
                "created": 0,
                "model": body["model"],
                "choices": [
                    {
                        "index": 0,
                        "finish_reason": "stop",
                        "message": {"role": "assistant", "content": text},
                    }
                ],
                "usage": {
                    "prompt_tokens": len(prompt.split()),
                    "completion_tokens": len(text.split()),
                    "total_tokens": len(prompt.split()) + len(text.split()),
                },
            }

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                data = json.dumps(respond(body)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
                del format, arguments  # requests are kept in ``prompts``, not printed

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        """Base URL of the server."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> ScriptedLm:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def _text(content: object) -> str:
    """The text of a message, which is one text or a list of parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return str(content)
