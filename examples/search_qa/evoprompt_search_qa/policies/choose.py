"""Finds the policy that a command line names."""

from __future__ import annotations

from pathlib import Path

from evoprompt_retrieval.address import flaw

from evoprompt.errors import InputError
from evoprompt.validation import nearest
from evoprompt_search_qa.policies.base import Policy
from evoprompt_search_qa.tiny.task import SHIPPED_POLICY

KINDS = ("tiny", "transformers", "openai")


def kind_of(spec: str) -> str:
    """Which of :data:`KINDS` a policy such as ``"openai:qwen"`` is of.

    Raises:
        InputError: none, or it lacks the name that the kind needs.
    """
    kind, colon, name = spec.partition(":")
    if kind not in KINDS:
        raise InputError(
            f"policy is {spec!r}; required: tiny, tiny:FOLDER, transformers:NAME or "
            f"openai:NAME{nearest(kind, KINDS)}"
        )
    if kind != "tiny" and not name:
        raise InputError(f"policy is {spec!r}; required: the name of a model, as in {kind}:NAME")
    if colon and not name:
        raise InputError(f"policy is {spec!r}; required: a folder after the colon, or no colon")
    return kind


def open_policy(
    spec: str, *, base_url: str | None, device: str, tokenizer: str | None = None
) -> Policy:
    """The policy ``tiny``, ``tiny:FOLDER``, ``transformers:NAME`` or ``openai:NAME``.

    Args:
        spec: which one.
        base_url: where an ``openai`` policy is served; required for it.
        device: where a ``transformers`` policy computes, ``cpu`` or ``cuda``.
        tokenizer: of an ``openai`` policy, which is then sent tokens instead of chat messages.

    Raises:
        InputError: there is no such policy, or it cannot be loaded.
    """
    kind = kind_of(spec)
    name = spec.partition(":")[2]
    if kind == "tiny":
        from evoprompt_search_qa.policies import tiny

        return tiny.load(Path(name) if name else SHIPPED_POLICY)
    if kind == "transformers":
        from evoprompt_search_qa.policies import local

        return local.load(name, device)
    address = endpoint_address(spec, base_url)
    from evoprompt_search_qa.policies import endpoint

    return endpoint.load(name, address, tokenizer)


def endpoint_address(spec: str, base_url: str | None) -> str:
    """Where an ``openai`` policy is served.

    Raises:
        InputError: nowhere, or at what is no address.
    """
    if not base_url:
        raise InputError(
            f"policy is {spec!r} without an address; required: --base-url, such as "
            "http://127.0.0.1:8000/v1"
        )
    if why := flaw(base_url):
        raise InputError(
            f"--base-url is {base_url!r}, which is no address ({why}); required: such as "
            "http://127.0.0.1:8000/v1"
        )
    return base_url
