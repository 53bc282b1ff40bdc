"""Clients of all protocols train through the gateway, are killed, and end as if nothing happened.

The session foreign_agents runs this file, as it has the clients.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from kill_contract import KillContract

CLIENTS = (
    *("openai, chat", "openai, responses", "anthropic"),
    *("openai-agents, chat", "openai-agents, responses", "smolagents"),
)


class ClientContract(KillContract):
    """Training of one client, whole or as a stream; a full disk is the same for all of them."""

    module = "client_kills"
    test_on_a_disk_that_is_full_at_any_moment: Any = None

    def kills(self, operations: Sequence[str]) -> list[int]:
        """Return every third of the usual operations, as a start of a client takes seconds."""
        return super().kills(operations)[::3]


def contract_of(client: str, *, stream: bool) -> type[ClientContract]:
    """Return the contract of a client as a class that pytest collects."""
    settings: dict[str, Any] = {"client": client, "stream": stream}
    attributes = {"first": {**settings, "steps": 1}, "rest": settings}
    return type("TestClient", (ClientContract,), {**attributes, "__module__": __name__})


for _client in CLIENTS:
    for _stream in (False, True):
        _name = f"Test_{re.sub('[^a-z]+', '_', _client)}{'_stream' if _stream else ''}"
        globals()[_name] = contract_of(_client, stream=_stream)


def test_all_clients_are_tested() -> None:
    assert set(import_module("client_kills").CLIENTS) == set(CLIENTS)
