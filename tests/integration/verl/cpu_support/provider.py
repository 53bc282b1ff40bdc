"""Test support: a provider of language models that wants a key, in OpenAI's protocol.

``python -m cpu_support.provider PORT_FILE LOG`` serves until it is killed; ``LOG`` has the
status of every answer. Whatever it is asked, it proposes the instructions of the world.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cpu_support.world import CHANCES, FIRST

KEY = "sk-only-the-command-has-it"
_ANSWER = f"""\
[[ ## analysis ## ]]
The colour was a guess.

[[ ## candidates ## ]]
{json.dumps([text for text in CHANCES if text != FIRST])}

[[ ## completed ## ]]"""


class Handler(BaseHTTPRequestHandler):
    """Answers ``POST .../chat/completions``; 401 without the key, 404 anywhere else."""

    log: Path

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.path.endswith("/chat/completions"):
            self.answer(404, {"error": {"message": f"no {self.path}"}})
        elif self.headers["Authorization"] != f"Bearer {KEY}":
            self.answer(401, {"error": {"message": "Incorrect API key provided"}})
        else:
            message = {"role": "assistant", "content": _ANSWER}
            self.answer(
                200,
                {
                    "id": "1",
                    "object": "chat.completion",
                    "created": 0,
                    "model": asked["model"],
                    "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18},
                },
            )

    def answer(self, status: int, content: object) -> None:
        with self.log.open("a") as file:
            file.write(f"{status}\n")
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002


def main(port_file: Path, log: Path) -> None:
    """Serves on a free port of this machine, and writes which."""
    Handler.log = log
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    port_file.write_text(str(server.server_port))
    server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
