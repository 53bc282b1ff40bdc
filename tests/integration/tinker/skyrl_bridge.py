"""Translates between a client of tinker 0.38 and the server of SkyRL 0.4, which knows tinker 0.25.

A program, ``python skyrl_bridge.py http://127.0.0.1:8123 8124``, which the nightly session
``tinker_service`` runs. What differs:

- the answer to ``asample`` has to say the ids of the sequences;
- a session is finished by a request of its own;
- weights are loaded by one request, which names a session, not a model that was made before; the
  client then names the model itself, in JSON and in protocol buffers.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from aiohttp import ClientSession, ClientTimeout, web
from tinker.proto.tinker_public_pb2 import ForwardBackwardRequest

_OURS = ("host", "content-length", "connection", "accept-encoding")


class Bridge:
    """Passes requests on.

    Args:
        server: address of the server.
    """

    def __init__(self, server: str) -> None:
        self.server = server
        self.models: dict[str, str] = {}

    async def answer(self, request: web.Request) -> web.Response:
        """The server's answer to a request, as the client reads it."""
        body = await request.read()
        path = request.path.rsplit("/", 1)[-1]
        if path == "finish":
            return web.json_response({})
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _OURS}
        async with ClientSession(timeout=ClientTimeout(total=None), headers=headers) as session:
            if path == "load_weights":
                body = await self._load(session, json.loads(body))
            body = self._renamed(request, body)
            url = self.server + request.path_qs
            async with session.request(request.method, url, data=body) as found:
                answer = await found.read()
                if path == "asample" and found.status == 200:
                    asked, told = json.loads(body), json.loads(answer)
                    told["sample_sequence_ids"] = [
                        f"{told['request_id']}-{number}"
                        for number in range(asked.get("num_samples", 1))
                    ]
                    answer = json.dumps(told).encode()
                kind = found.headers.get("Content-Type", "application/json")
                return web.Response(
                    body=answer, status=found.status, headers={"Content-Type": kind}
                )

    def _renamed(self, request: web.Request, body: bytes) -> bytes:
        """``body`` with the server's names of models."""
        if "protobuf" in request.headers.get("Content-Type", ""):
            message = ForwardBackwardRequest.FromString(body)
            message.model_id = self.models.get(message.model_id, message.model_id)
            named: bytes = message.SerializeToString()
            return named
        for ours, theirs in self.models.items():
            body = body.replace(f'"{ours}"'.encode(), f'"{theirs}"'.encode())
        return body

    async def _load(self, session: ClientSession, wanted: dict[str, Any]) -> bytes:
        """Makes a model for the weights, and returns the request that loads them into it."""
        info = await self._post(session, "weights_info", tinker_path=wanted["path"])
        made = await self._post(
            session,
            "create_model",
            session_id=wanted["session_id"],
            base_model=info["base_model"],
            lora_config={"rank": info["lora_rank"]},
        )
        await self._post(session, "retrieve_future", request_id=made["request_id"])
        ours = f"{wanted['session_id']}:train:{wanted['model_seq_id']}"
        self.models[ours] = made["model_id"]
        optimizer = wanted["optimizer"]
        return json.dumps(
            {"model_id": made["model_id"], "path": wanted["path"], "optimizer": optimizer}
        ).encode()

    async def _post(self, session: ClientSession, path: str, **body: object) -> dict[str, Any]:
        while True:
            async with session.post(f"{self.server}/api/v1/{path}", json=body) as found:
                if found.status != 408:  # still at work
                    found.raise_for_status()
                    answer: dict[str, Any] = await found.json()
                    return answer
            await asyncio.sleep(1)


def main(server: str, port: int) -> None:
    """Serves on ``port`` of this machine."""
    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/{any:.*}", Bridge(server).answer)
    web.run_app(app, host="127.0.0.1", port=port, print=None)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
