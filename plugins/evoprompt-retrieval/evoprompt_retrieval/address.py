"""Addresses of servers, looked at before anybody is asked."""

from __future__ import annotations

from urllib.parse import urlsplit


def flaw(url: str) -> str:
    """Why nobody can be asked at ``url``; empty if somebody could.

    >>> flaw("localhost:8000")
    'it does not begin with http:// or https:// and the name of a machine'
    """
    try:
        found = urlsplit(url)
        _ = found.port
    except ValueError as error:
        return str(error)
    if found.scheme not in ("http", "https") or not found.hostname:
        return "it does not begin with http:// or https:// and the name of a machine"
    return ""
