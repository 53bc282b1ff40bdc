"""Whether a search server answers, and what it serves."""

from __future__ import annotations

import json
from collections.abc import Mapping

from evoprompt.agents.tasks import Need


def search_server(url: str) -> Need:
    """A search server that answers."""
    import httpx

    remedy = "evoprompt retriever serve --corpus FILE --index DIR, or give another address"
    address = url.removesuffix("/retrieve").rstrip("/")
    body = {"queries": ["test"], "topk": 1, "return_scores": True}
    try:
        answer = httpx.post(f"{address}/retrieve", json=body, timeout=10.0)
        answer.raise_for_status()
        found = len(answer.json()["result"])
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return Need("search server", f"{url}: {error or type(error).__name__}", remedy)
    except (json.JSONDecodeError, KeyError, TypeError):
        return Need("search server", f"{url} answers garbage", remedy)
    if not found:
        return Need("search server", f"{url} answers garbage", remedy)
    told = " ".join(served(url).values())
    return Need("search server", f"{url} answers" + (f" from {told}" if told else ""))


def served(url: str) -> Mapping[str, str]:
    """What the search server at ``url`` says it serves: ``index``, ``corpus``, ``fingerprint``.

    Empty if it does not answer or, as Search-R1's own server, does not say.
    """
    import httpx

    address = url.removesuffix("/retrieve").rstrip("/")
    try:
        told = httpx.get(f"{address}/health", timeout=10.0).raise_for_status().json()
        return {name: str(told[name]) for name in ("index", "corpus", "fingerprint")}
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError):
        return {}
