"""Test support: the tool ``look_up``, named in veRL's configuration by its path."""

from __future__ import annotations

import os

import aiohttp
from verl.tools.function_tool import function_tool


@function_tool("look_up")  # type: ignore[untyped-decorator]
async def look_up(item: str) -> str:
    """Finds the colour of an item.

    Args:
        item: which one.
    """
    query = {"queries": [item], "topk": 1, "return_scores": True}
    async with (
        aiohttp.ClientSession() as session,
        session.post(os.environ["COLOURS_RETRIEVER"], json=query) as response,
    ):
        found = await response.json()
    return str(found["result"][0][0]["document"]["contents"])
