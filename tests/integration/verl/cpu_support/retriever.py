"""Test support: an HTTP server that knows the colour of every item, and a veRL tool that asks it.

``python -m cpu_support.retriever PORT_FILE LOG`` serves until it is killed.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cpu_support.world import GOLD


class Handler(BaseHTTPRequestHandler):
    """Answers ``POST /retrieve`` in Search-R1's protocol."""

    log: Path

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.log.open("a") as file:
            file.writelines(f"{query}\n" for query in asked["queries"])
        found = [[{"document": {"contents": GOLD}, "score": 1.0}] for _ in asked["queries"]]
        body = json.dumps({"result": found}).encode()
        self.send_response(200)
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
