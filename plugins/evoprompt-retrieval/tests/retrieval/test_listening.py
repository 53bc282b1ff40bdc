from __future__ import annotations

import select
import socket
from contextlib import ExitStack

import pytest
from evoprompt_retrieval.listening import bind_each

from evoprompt.errors import InputError


def accepted(listener: socket.socket) -> int:
    """Number of connections that wait on ``listener``."""
    found = 0
    with ExitStack() as stack:
        while select.select([listener], [], [], 0.1)[0]:
            stack.enter_context(listener.accept()[0])
            found += 1
    return found


def test_connections_that_come_together_are_dealt_out_to_all_workers() -> None:
    with ExitStack() as stack:
        listeners = [stack.enter_context(one) for one in bind_each("127.0.0.1", 0, 3)]
        for listener in listeners:
            listener.listen(256)
        (address,) = {listener.getsockname() for listener in listeners}
        for _ in range(120):
            stack.enter_context(socket.create_connection(address, timeout=10))
        counts = [accepted(listener) for listener in listeners]
    assert sum(counts) == 120
    assert min(counts) >= 15  # 40 expected, 5.2 the standard deviation


@pytest.mark.parametrize("workers", [1, 2])
def test_no_server_joins_another_one(workers: int) -> None:
    with ExitStack() as stack:
        first = [stack.enter_context(one) for one in bind_each("127.0.0.1", 0, 2)]
        for listener in first:
            listener.listen()
        port = first[0].getsockname()[1]
        with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1:{port}"):
            bind_each("127.0.0.1", port, workers)


def test_one_worker_shares_its_address_with_nobody() -> None:
    with ExitStack() as stack:
        (only,) = (stack.enter_context(one) for one in bind_each("127.0.0.1", 0, 1))
        assert not only.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT)
