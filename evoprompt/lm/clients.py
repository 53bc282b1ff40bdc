"""Closes what litellm keeps open; DSPy closes its own connections and none of litellm's."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

_UNDER_WAY: Counter[asyncio.AbstractEventLoop] = Counter()


@asynccontextmanager
async def closing_clients() -> AsyncIterator[None]:
    """Closes the clients that litellm made for this event loop once nobody here uses them.

    litellm keeps each for an hour and then drops it as it is: its connections stay open until the
    garbage collector finds them, which tells of an "unclosed client session".
    """
    loop = asyncio.get_running_loop()
    _UNDER_WAY[loop] += 1
    try:
        yield
    finally:
        _UNDER_WAY[loop] -= 1
        if not _UNDER_WAY[loop]:
            del _UNDER_WAY[loop]
            # All are taken out before the first await, after which another call may begin.
            for client in _taken(loop):
                with suppress(Exception):  # the answers are there, and are what counts
                    await client.close()


def _taken(loop: asyncio.AbstractEventLoop) -> list[Any]:
    """The clients of ``loop``, no longer in litellm's cache."""
    litellm = sys.modules.get("litellm")
    if litellm is None:  # nobody needed it
        return []
    cache = litellm.in_memory_llm_clients_cache
    lent = (litellm.client_session, litellm.aclient_session)
    taken = []
    for key in [key for key in cache.cache_dict if key.endswith(f"-{id(loop)}")]:
        client = cache.cache_dict[key]
        cache.delete_cache(key)
        if not any(one is not None and one is getattr(client, "_client", None) for one in lent):
            taken.append(client)
    return taken
