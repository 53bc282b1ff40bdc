"""Rule for addresses and keys: which address a provider has, and which key an address gets.

The environment holds the key of a provider beside its address: ``OPENAI_API_KEY`` beside
``OPENAI_BASE_URL`` or ``OPENAI_API_BASE``. Such a key is sent to this address and to the provider's
own hosts. Any other server gets a key only if its variable is named for this server.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from evoprompt.support.credentials import masked
from evoprompt.support.errors import InputError

_DOMAINS: Mapping[str, str] = {"OPENAI": "openai.com", "ANTHROPIC": "anthropic.com"}
"""Domain of each provider whose address users write themselves."""

_PORTS = {"http": 80, "https": 443}


def address_from_environment(provider: str) -> str | None:
    """Return the address that the environment names for a provider; None if it names none."""
    names = (f"{provider}_BASE_URL", f"{provider}_API_BASE")
    return next((address for name in names if (address := os.environ.get(name))), None)


def key_variable(
    base_url: str | None, named: str | None = None, provider: str | None = None
) -> str | None:
    """Return the environment variable of the key for a server; None if it gets no key.

    Args:
        base_url: address of the server; None for the provider's own.
        named: the variable that the user has named for this server.
        provider: name of the provider, as in ``OPENAI_API_KEY``; by default the one to which the
            address belongs.
    """
    if named is not None:
        return named
    providers = _DOMAINS if provider is None else (provider,)
    owners = [name for name in providers if base_url is None or _belongs_to(base_url, name)]
    return f"{owners[0]}_API_KEY" if owners else None


def key_for(base_url: str | None, named: str | None = None, provider: str | None = None) -> str:
    """Return the key for a server, by the rule of :func:`key_variable`; empty for no key."""
    variable = key_variable(base_url, named, provider)
    return "" if variable is None else os.environ.get(variable, "")


def require_key(variable: str | None, setting: str) -> None:
    """Require the key of a server in the environment variable that ``setting`` names, if it does.

    Raises:
        InputError: the environment does not have the variable, or it is empty.
    """
    if variable is not None and not os.environ.get(variable):
        raise InputError(
            f"{setting} is {masked(variable)}, which the environment does not have; required: a "
            f"variable that holds the key; export {masked(variable)}=..."
        )


def require_address(base_url: str, name: str) -> None:
    """Require the base URL of a server, below which the paths of its protocol are.

    Raises:
        InputError: it has no scheme, or ends with the path of a request.
    """
    address = base_url.rstrip("/")
    fault = ""
    if urlsplit(address).scheme not in _PORTS:
        fault = "which does not begin with http:// or https://"
    for path in ("/chat/completions", "/completions", "/responses", "/messages"):
        if address.endswith(path) and not fault:
            fault = f"which ends with {path}, the path of a request"
    if fault:
        raise InputError(
            f"{name} is {masked(base_url)}, {fault}; required: the base URL of a server, such as "
            "http://127.0.0.1:8000/v1"
        )


def describe_key(base_url: str | None, named: str | None, setting: str) -> str:
    """Return the remedy for a server that refuses the key, or the lack of one.

    Args:
        base_url: address of the server.
        named: the variable that the user has named for this server.
        setting: how the user names a variable.
    """
    variable = key_variable(base_url, named)
    if variable is None:
        return f"no key was sent, as none is named for this server; name its variable by {setting}"
    return f"check {variable}{'' if os.environ.get(variable) else ', which is not set'}"


def _belongs_to(base_url: str, provider: str) -> bool:
    origin = _origin_of(base_url)
    configured_url = address_from_environment(provider)
    if configured_url is not None and _origin_of(configured_url) == origin:
        return True
    scheme, host, _ = origin
    domain = _DOMAINS.get(provider)
    return domain is not None and scheme == "https" and f".{host}".endswith(f".{domain}")


def _origin_of(base_url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port of an address; no two texts that are no address are equal."""
    try:
        parts = urlsplit(base_url)
        scheme = parts.scheme.lower()
        return scheme, (parts.hostname or base_url).lower(), parts.port or _PORTS.get(scheme)
    except ValueError:
        return "", base_url, None
