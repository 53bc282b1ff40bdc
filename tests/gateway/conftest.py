"""What tests of the gateway share: an engine, and a gateway before a server that is a function."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from contract_runs import BRIEF
from socket_upstream import Handler, SocketUpstream, Standing, build, local, serving

from evoprompt import Engine
from evoprompt.gateway import Gateway


@pytest.fixture
def engine() -> Engine:
    return BRIEF.build()


@pytest.fixture
def standing(engine: Engine, tmp_path: Path) -> Standing:
    """Opens a gateway before a server whose handler is given, with further settings."""

    @contextmanager
    def stand(handler: Handler, **given: Any) -> Iterator[tuple[Gateway, SocketUpstream]]:
        with (
            serving(handler) as upstream,
            build(engine, tmp_path, local(upstream), **given) as gateway,
        ):
            yield gateway, upstream

    return stand
